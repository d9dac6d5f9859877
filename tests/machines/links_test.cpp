// The mesh between two machines.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/peer_fd.hpp"
#include "core/bootstrap/bootstrap.hpp"
#include "core/bootstrap/store.hpp"
#include "core/mesh/mesh.hpp"
#include "core/mesh/wire.hpp"
#include "core/socket/tcp.hpp"
#include "tests/machines/two_machines.hpp"
#include "tests/mesh/mesh_support.hpp"
#include "tests/support/process.hpp"

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

  std::shared_ptr<Mesh> join(int rank, WatchedStore::Watch watch = [](auto&, auto&) {}) const {
    enter(rank);
    setenv("MASTER_ADDR", "m0.rack", 1);
    const BootstrapResult result = bootstrap({"env://", nullptr, 0, 0, ""}, soon());
    WatchedStore store(*result.store, std::move(watch));
    return Mesh::connect(store, result.rank, result.size, "", soon());
  }
};

TEST_F(Machines, AllRanksTalkAndKnowWhichAreElsewhere) {
  as_processes(4, [&](int rank) {
    const auto mesh = join(rank);
    for (uint64_t tag = 1; tag < 50; ++tag) {
      greet(*mesh, tag);
    }

    for (int peer = 0; peer < 4; ++peer) {
      const bool here = peer / 2 == rank / 2;
      EXPECT_EQ(mesh->carries_descriptors(peer), here);
      EXPECT_TRUE(peer == rank || mesh->peer(peer).watched == here) << peer;
      EXPECT_EQ(mesh->peer(peer).host, here ? "" : format("m%d", peer / 2));
    }

    EXPECT_EQ(mesh->rejected_connections(), 0U);
    EXPECT_EQ(outside_address(), format("10.77.0.1%d", rank / 2));
  });
}

TEST_F(Machines, AThousandSilentConnectionsKeepNobodyOutAndAreCounted) {
  leave_descriptors(2'500);
  as_processes(4, [&](int rank) {
    std::vector<PeerFd> silent;
    const auto mesh = join(rank, [&](const std::string& key, const Bytes& value) {
      wire::Packet packet;
      if (rank != 2 || key != "mesh/address/0" || wire::decode(value, packet) != nullptr) return;
      while (silent.size() < 1'000) {
        silent.push_back(dial_tcp("10.77.0.10", packet.address.port));
      }
    });
    for (uint64_t tag = 1; tag < 50; ++tag) {
      greet(*mesh, tag);
    }

    // Rank 0 may not have come to all of them yet. They stay open until it has counted them: what
    // hangs up by itself is not turned away.
    if (rank == 0) {
      EXPECT_TRUE(eventually([&] { return mesh->rejected_connections() > 500; }))
          << mesh->rejected_connections();
    }
    greet(*mesh, 50);
  });
}

// On another machine only its connection tells of its death.
TEST_F(Machines, AKilledProcessIsNamedWithItsMachine) {
  const Shared<std::atomic<int>> heard;
  Processes ranks(4, [&](int rank) {
    const auto mesh = join(rank);
    const auto revocation = attach_all(*mesh, 7);
    greet(*mesh, 1);
    tell();
    const std::string message = await_failure(*revocation).message;

    // A rank that leaves has failed for those that have not heard of rank 3 yet.
    ++*heard;
    EXPECT_TRUE(eventually([&] { return *heard == 3; }, 30'000));
    return message;
  });
  for (auto& rank : ranks) {
    EXPECT_TRUE(rank.told());
  }

  ranks[3].kill(SIGKILL);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string message = ranks[rank].result();
    const char* const machine = rank < 2 ? " on m1" : "";
    EXPECT_TRUE(message.starts_with(format("rank 3 (pid %d%s) died", ranks[3].pid(), machine)))
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

  for (auto& rank : ranks) {
    EXPECT_TRUE(rank.told());
  }

  usleep(2'500'000);  // longer than SYMM_PEER_TIMEOUT_MS
  ranks[3].kill(SIGCONT);
  for (auto& rank : ranks) {
    EXPECT_EQ(rank.result(), "");
  }
}
}  // namespace
