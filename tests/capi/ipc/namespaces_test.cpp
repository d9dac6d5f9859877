// Containers that share nothing but the directory.
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>

#include "tests/capi/ipc/sharing.hpp"

namespace support {
namespace {
// Into new PID, network and IPC namespaces; why not. A PID namespace is for children.
std::string why_not_into_namespaces() {
  const int flags =
      CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | (geteuid() != 0 ? CLONE_NEWUSER : 0);
  return unshare(flags) == 0
             ? ""
             : std::string("no namespaces can be made here: ") + std::strerror(errno);
}

void in_new_namespaces(const std::function<void()>& body) {
  if (const std::string why = why_not_into_namespaces(); !why.empty()) {
    throw std::runtime_error(why);
  }
  Process(body).expect_success("who is in namespaces");
}

// In a user namespace of its own, a process does not see the ids of processes outside, which are
// refused. Only root can make the other namespaces without one.
std::string why_not_as_ourselves() {
  if (geteuid() != 0) return "only root can make PID namespaces that keep the user";
  return Process(why_not_into_namespaces).result();
}

class Namespaces : public Sharing {
 protected:
  void share(bool exporter_inside, bool importer_inside, bool kill_importer) {
    if (const std::string reason = why_not_as_ourselves(); !reason.empty()) GTEST_SKIP() << reason;
    const auto run = [](bool inside, const std::function<void()>& body) {
      inside ? in_new_namespaces(body) : body();
    };

    exporter([&] {
      run(exporter_inside, [&] {
        const Owned owned = offer(1 << 16);
        *owned.at<int>() = 11;
        pass();
        EXPECT_EQ(ipc_stats().leases, 1U);
        go_on();
        expect_eventually("the lease is over", [] { return ipc_stats().leases == 0; });
        EXPECT_EQ(ipc_stats().written_off_leases, kill_importer ? 1U : 0U);
        EXPECT_EQ(ipc_stats().quarantined_blocks, 0U);
      });
    });

    importer([&] {
      run(importer_inside, [&] {
        const Import mine = import(facts->token);
        EXPECT_EQ(*mine.at<int>(), 11);
        pass();
        if (kill_importer) _exit(0);  // as good as killed: nothing is released
      });
    });
  }
};

TEST_F(Namespaces, TheExporterIsInside) { share(true, false, false); }

TEST_F(Namespaces, TheImporterIsInside) { share(false, true, false); }

TEST_F(Namespaces, BothInDifferentOnes) { share(true, true, false); }

TEST_F(Namespaces, TheImporterDiesInside) { share(false, true, true); }
}  // namespace
}  // namespace support
