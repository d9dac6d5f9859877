// SPDX-License-Identifier: Apache-2.0
//
// Containers that share nothing but the directory.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tests/capi/ipc/sharing.hpp"

namespace support {
namespace {

// In new PID, network and IPC namespaces. A PID namespace is for children, so there is one more process.
void in_new_namespaces(const std::function<void()>& body) {
  int flags = CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC;
  if (geteuid() != 0) flags |= CLONE_NEWUSER;
  if (unshare(flags) != 0) throw std::runtime_error(std::string("unshare: ") + std::strerror(errno));
  const pid_t child = fork();
  if (child == 0) {
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "in namespaces: %s\n", error.what());
      _exit(2);
    }
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

std::string why_not() {
  const pid_t child = fork();
  if (child == 0) {
    const int flags = CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | (geteuid() != 0 ? CLONE_NEWUSER : 0);
    _exit(unshare(flags) == 0 ? 0 : errno);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0 ? "" : std::string("no namespaces can be made here: ") + std::strerror(WEXITSTATUS(status));
}

// With a user namespace, the ids of who is outside are not visible inside, and are refused: only root can make the others alone.
std::string why_not_as_ourselves() {
  if (geteuid() != 0) return "only root can make PID namespaces that keep the user";
  return why_not();
}

void share(bool exporter_inside, bool importer_inside, bool kill_importer) {
  if (const std::string reason = why_not_as_ourselves(); !reason.empty()) GTEST_SKIP() << reason;
  const Directory directory;
  Shared<Facts> facts;
  as_processes(2, [&](int rank) {
    const std::function<void()> bodies[2] = {[&] {
                                               const Owned owned(1 << 16);
                                               *owned.at<int>() = 11;
                                               facts->token = make_token(owned.data, 64);
                                               reach(*facts, 1);
                                               wait_for(facts->done, 1);
                                               EXPECT_EQ(ipc_stats().leased, 1U);
                                               reach(*facts, 2);
                                               expect_eventually("the lease is over", [] { return ipc_stats().leased == 0; });
                                               EXPECT_EQ(ipc_stats().written_off, kill_importer ? 1U : 0U);
                                               EXPECT_EQ(ipc_stats().quarantined_blocks, 0U);
                                             },
                                             [&] {
                                               wait_for(facts->step, 1);
                                               const Import mine = import(facts->token);
                                               EXPECT_EQ(*mine.at<int>(), 11);
                                               facts->done = 1;
                                               wait_for(facts->step, 2);
                                               if (kill_importer) _exit(0);  // as good as killed: nothing is released
                                             }};
    if (rank == 0 ? exporter_inside : importer_inside) {
      in_new_namespaces(bodies[rank]);
    } else {
      bodies[rank]();
    }
  });
}

TEST(Namespaces, TheExporterIsInside) { share(true, false, false); }
TEST(Namespaces, TheImporterIsInside) { share(false, true, false); }
TEST(Namespaces, BothInDifferentOnes) { share(true, true, false); }
TEST(Namespaces, TheImporterDiesInside) { share(false, true, true); }

}  // namespace
}  // namespace support
