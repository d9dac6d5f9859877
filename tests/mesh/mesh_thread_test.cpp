// Ranks that are threads of one process: mailboxes, no sockets.
#include "tests/mesh/mesh_support.hpp"

namespace {
using namespace symm;
using namespace support;

using MeshThreads = MeshTest;

TEST_F(MeshThreads, AllTalkToAllWithoutDescriptors) {
  for (const int size : {2, 3, 8, 64}) {
    const size_t before = open_descriptors();
    std::vector<std::shared_ptr<Mesh>> meshes(static_cast<size_t>(size));
    as_threads(size, [&](int rank) {
      meshes[static_cast<size_t>(rank)] = connect(directory.path(), rank, size);
      greet(*meshes[static_cast<size_t>(rank)], 1);
    });
    EXPECT_EQ(open_descriptors(), before);
    for (const auto& mesh : meshes) {
      EXPECT_EQ(mesh->nonce(), meshes[0]->nonce());
      for (int peer = 0; peer < size; ++peer) EXPECT_TRUE(mesh->peer(peer).same_process);
    }
  }
}

// The first write or reading of a key fails, and not by an Error.
void expect_internal_on_all_ranks(const std::string& key) {
  TemporaryDirectory directory;
  as_threads(2, [&](int rank) {
    const auto start = std::chrono::steady_clock::now();
    const Failure failure = expect_failure(Status::internal, {"odd"}, [&] {
      const auto files = open_store(directory.path(), rank, 2);
      WatchedStore store(*files, [&, odd = rank == 0](const std::string& used, const Bytes&) mutable {
        if (used == key && !std::exchange(odd, true)) throw std::runtime_error("odd");
      });
      Mesh::connect(store, rank, 2, "test", soon());
    });
    EXPECT_EQ(failure.rank, 1);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  });
}

TEST_F(MeshThreads, AnUnexpectedExceptionIsInternalOnAllRanks) { expect_internal_on_all_ranks("mesh/identity/1"); }

// The other is joined when it has voted already.
TEST_F(MeshThreads, AThreadThatFailedAfterItsIntroductionIsHeard) { expect_internal_on_all_ranks("mesh/identity/0"); }

TEST_F(MeshThreads, EventsBeforeAttachAreReplayed) {
  as_threads(3, [&](int rank) {
    const auto mesh = connect(directory.path(), rank, 3);
    if (rank == 0) {
      attach_all(*mesh, 5);
      attach_all(*mesh, 6);
      mesh->broadcast_failure(5, {Status::aborted, 0, 1, "early"});
      mesh->detach(6);
    }
    greet(*mesh, 1);
    if (rank != 0) {
      EXPECT_EQ(await_failure(*attach_all(*mesh, 5), 0).message, "early");
      EXPECT_TRUE(attach_all(*mesh, 6)->departed(0));
    }
    greet(*mesh, 2);
  });
}

TEST_F(MeshThreads, WrongSizesAreAFault) {
  as_threads(2, [&](int rank) {
    const auto mesh = connect(directory.path(), rank, 2);
    const auto revocation = attach_all(*mesh, kTopic.group);
    greet(*mesh, 1);
    say(*mesh, 1 - rank, kTopic, "four");
    expect_failure(Status::peer_failed, {"broke the protocol"}, [&] { hear(*mesh, 1 - rank, kTopic, 5); });
    EXPECT_TRUE(revocation->revoked());
  });
}

TEST_F(MeshThreads, AFloodOfUnreadMessagesFailsItsSenderForAll) {
  std::shared_ptr<Mesh> meshes[3];
  std::shared_ptr<Revocation> revocations[3];
  as_threads(3, [&](int rank) {
    meshes[rank] = connect(directory.path(), rank, 3);
    revocations[rank] = attach_all(*meshes[rank], kTopic.group);
  });
  for (int i = 0; i < 5'000; ++i) say(*meshes[0], 1, kTopic, "flood");
  for (const auto& revocation : revocations)
    EXPECT_NE(revocation->failure().message.find("more than anybody reads"), std::string::npos);
}
}  // namespace
