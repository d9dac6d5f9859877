// The mesh between two machines.
#include "core/bootstrap/bootstrap.hpp"
#include "core/socket/secure_connection.hpp"
#include "tests/machines/two_machines.hpp"
#include "tests/mesh/mesh_support.hpp"

namespace {
using namespace symm;
using namespace support;

class Machines : public TwoMachines {
 protected:
  void SetUp() override {
    TwoMachines::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (const std::string none = support::why_no_secret(); !none.empty()) GTEST_SKIP() << none;
  }
  std::shared_ptr<Mesh> join(int rank) const {
    enter(rank);
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
