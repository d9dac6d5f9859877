// Ranks on two machines, each a network namespace with its own mounts and host name: two on m0, two on m1, started as by
// torchrun.
#include <sys/mount.h>
#include "core/bootstrap/bootstrap.hpp"
#include "core/socket/secure_connection.hpp"
#include "tests/mesh/mesh_support.hpp"

namespace {
using namespace symm;
using namespace support;

class Machines : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = run("exec 2>&1; mkdir -p " + shared_ + "/m0 " + shared_ + "/m1; " MACHINES " up @ 2");
    if (!why.empty() && std::string(getenv("CI") != nullptr ? getenv("CI") : "").empty())
      GTEST_SKIP() << "no network namespaces: " << why;
    ASSERT_EQ(why, "");
    setenv("SYMM_SECRET_FILE", (shared_ + "/secret").c_str(), 1);
    setenv("SYMM_PEER_TIMEOUT_MS", "1000", 1);
    if (const std::string none = support::why_no_secret(); !none.empty()) GTEST_SKIP() << none;
  }
  ~Machines() override { run(MACHINES " down @; rm -rf " + shared_); }
  // What the shell says if it fails, "" if not.
  std::string run(std::string script) const {
    for (size_t at = 0; (at = script.find('@', at)) != std::string::npos;) script.replace(at, 1, name_);
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(script.c_str(), "r"), [](FILE*) { return 0; });
    std::string said;
    char buffer[256];
    while (fgets(buffer, sizeof buffer, pipe.get()) != nullptr) said += buffer;
    return pclose(pipe.get()) == 0 ? "" : said + ".";
  }
  void enter(int machine) const {
    const Fd network(open(format("/run/netns/%sm%d", name_.c_str(), machine).c_str(), O_RDONLY | O_CLOEXEC));
    if (setns(network.get(), CLONE_NEWNET) != 0 || unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount((shared_ + "/m" + std::to_string(machine)).c_str(), "/tmp", nullptr, MS_BIND, nullptr) != 0 ||
        sethostname(machine == 0 ? "m0" : "m1", 2) != 0)
      throw system_error(errno, "unshare");
  }
  std::shared_ptr<Mesh> join(int rank) const {
    // Ranks 0 and 1 on m0, 2 and 3 on m1; those of a machine share its mounts, for their sockets.
    enter(rank / 2);
    for (const auto& [name, value] : {std::pair("RANK", std::to_string(rank)), std::pair("LOCAL_RANK", std::to_string(rank % 2)),
             std::pair("WORLD_SIZE", std::string("4")), std::pair("LOCAL_WORLD_SIZE", std::string("2")),
             std::pair("MASTER_ADDR", std::string("10.77.0.10")), std::pair("MASTER_PORT", std::string("29500"))})
      setenv(name, value.c_str(), 1);
    unsetenv("XDG_RUNTIME_DIR");
    const BootstrapResult result = bootstrap({"env://", nullptr, 0, 0, ""}, soon());
    return Mesh::connect(*result.store, result.rank, result.size, "", soon());
  }
  // What each rank tells of a failure that `cause` brings about when all are connected.
  std::vector<std::string> tell_of(const std::function<void(Processes& ranks)>& cause, int survivors = 4) {
    Processes ranks(4, [&](int rank) {
      const auto mesh = join(rank);
      const auto revocation = attach_all(*mesh, 7);
      greet(*mesh, 1);
      tell();
      std::string message = await_failure(*revocation, 60'000).message;
      sleep(1);  // nobody shall hear of a departure first
      return message;
    });
    for (auto& rank : ranks) EXPECT_TRUE(rank.told());
    cause(ranks);
    std::vector<std::string> results;
    for (int rank = 0; rank < survivors; ++rank) results.push_back(ranks[rank].result());
    return results;
  }
  const std::string name_ = format("symm%d", getpid());
  const std::string shared_ = "/dev/shm/" + name_;  // every machine's: the secret, and each one's /tmp
};

TEST_F(Machines, AllTalkToAllAndKnowWhoIsElsewhere) {
  expect_of_ranks(4, "0 rejected", [&](int rank) {
    const auto mesh = join(rank);
    for (uint64_t tag = 1; tag < 50; ++tag) greet(*mesh, tag);
    for (int peer = 0; peer < 4; ++peer) {
      const bool here = peer / 2 == rank / 2;
      if (mesh->carries_descriptors(peer) != here || (peer != rank && mesh->peer(peer).watched != here))
        return format("wrong way to %d", peer);
      if (mesh->peer(peer).host != (here ? "" : format("m%d", peer / 2))) return "host " + mesh->peer(peer).host;
    }
    return format("%d rejected", static_cast<int>(mesh->rejected_connections()));
  });
}

TEST_F(Machines, AKilledProcessIsNamedWithItsMachine) {
  for (const std::string& message : tell_of([](Processes& ranks) { ranks[3].kill(SIGKILL); }, 3)) {
    EXPECT_TRUE(message.starts_with("rank 3 (pid ")) << message;
    EXPECT_NE(message.find("died"), std::string::npos) << message;
  }
}

TEST_F(Machines, AMachineThatIsCutOffIsNamedByBothSides) {
  const auto results = tell_of([&](Processes&) { EXPECT_EQ(run(MACHINES " link @ 10.77.0.11 down"), ""); });
  for (int rank = 0; rank < 4; ++rank) {
    const std::string& message = results[static_cast<size_t>(rank)];
    EXPECT_NE(
        message.find(rank < 2 ? "on m1) is cut off: m1 (10.77.0.11)" : "on m0) is cut off: m0 (10.77.0.10)"), std::string::npos)
        << message;
    EXPECT_NE(message.find(rank < 2 ? "has not answered m0 for 1.0 s" : "has not answered m1 for 1.0 s"), std::string::npos)
        << message;
  }
}

TEST_F(Machines, AStoppedProcessIsNotDead) {
  Processes ranks(4, [&](int rank) {
    const auto mesh = join(rank);
    const auto revocation = attach_all(*mesh, 7);
    tell();
    greet(*mesh, 1);
    if (rank == 3) raise(SIGSTOP);
    greet(*mesh, 2);
    return revocation->failure().message;
  });
  for (auto& rank : ranks) EXPECT_TRUE(rank.told());
  usleep(2'500'000);  // longer than SYMM_PEER_TIMEOUT_MS
  ranks[3].kill(SIGCONT);
  for (auto& rank : ranks) EXPECT_EQ(rank.result(), "");
}
}  // namespace
