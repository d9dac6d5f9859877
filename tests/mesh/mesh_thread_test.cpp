// SPDX-License-Identifier: Apache-2.0
//
// Ranks that are threads of one process: mailboxes, no sockets.
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/mesh/mesh_support.hpp"

namespace {

using namespace symm;
using namespace support;

TEST(MeshThreads, OneRankNeedsNobody) {
  TemporaryDirectory directory;
  const auto mesh = connect(directory.path(), 0, 1);
  EXPECT_EQ(mesh->size(), 1);
  EXPECT_NE(mesh->nonce(), 0U);
  EXPECT_EQ(mesh->peer(0).pid, getpid());
}

class MeshThreadsOf : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, MeshThreadsOf, testing::Values(2, 3, 8, 64));

TEST_P(MeshThreadsOf, AllTalkToAllWithoutDescriptors) {
  TemporaryDirectory directory;
  const size_t before = open_descriptors();
  std::vector<std::shared_ptr<Mesh>> meshes(static_cast<size_t>(GetParam()));
  as_threads(GetParam(), [&](int rank) {
    meshes[static_cast<size_t>(rank)] = connect(directory.path(), rank, GetParam());
    greet(*meshes[static_cast<size_t>(rank)], 1);
  });
  EXPECT_EQ(open_descriptors(), before);
  for (const auto& mesh : meshes) {
    EXPECT_EQ(mesh->nonce(), meshes[0]->nonce());
    for (int peer = 0; peer < GetParam(); ++peer) EXPECT_TRUE(mesh->peer(peer).same_process);
  }
}

// The first write or reading of a key fails, and not by an Error.
class OddStore final : public Store {
 public:
  OddStore(const std::string& path, std::string key) : store_(path, true), key_(std::move(key)) {}
  void set(const std::string& key, const Bytes& value, Deadline deadline) override {
    fail_once(key);
    store_.set(key, value, deadline);
  }
  Bytes get(const std::string& key, Deadline deadline) override {
    fail_once(key);
    return store_.get(key, deadline);
  }
  std::string describe() const override { return "odd"; }

 private:
  void fail_once(const std::string& key) {
    if (key != key_) return;
    key_.clear();
    throw std::runtime_error("odd");
  }
  FileStore store_;
  std::string key_;
};

void expect_internal_on_all_ranks(const std::string& key) {
  TemporaryDirectory directory;
  as_threads(2, [&](int rank) {
    const auto start = std::chrono::steady_clock::now();
    const Failure failure = failure_of([&] {
      if (rank == 0) return void(connect(directory.path(), 0, 2));
      OddStore store(directory.path(), key);
      Mesh::connect(store, 1, 2, "test", soon());
    });
    EXPECT_EQ(failure.status, Status::internal);
    EXPECT_EQ(failure.rank, 1);
    EXPECT_NE(failure.message.find("odd"), std::string::npos) << failure.message;
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  });
}

TEST(MeshThreads, AnUnexpectedExceptionIsInternalOnAllRanks) { expect_internal_on_all_ranks("mesh/identity/1"); }

// The other is joined when it has voted already.
TEST(MeshThreads, AThreadThatFailedAfterItsIntroductionIsHeard) { expect_internal_on_all_ranks("mesh/identity/0"); }

TEST(MeshThreads, DescriptorsArriveAsCopies) {
  TemporaryDirectory directory;
  as_threads(2, [&](int rank) {
    const auto mesh = connect(directory.path(), rank, 2);
    if (rank == 0) {
      int ends[2];
      ASSERT_EQ(pipe(ends), 0);
      say(*mesh, 1, kTopic, "pipe", std::span(ends, 2));
      close(ends[0]);
      close(ends[1]);
      hear(*mesh, 1, kTopic, 4);
    } else {
      const Message message = mesh->receive(0, kTopic, 4, 2, nullptr, soon());
      char c = 'x';
      ASSERT_EQ(write(message.fds[1].get(), &c, 1), 1);
      ASSERT_EQ(read(message.fds[0].get(), &c, 1), 1);
      say(*mesh, 0, kTopic, "done");
    }
  });
}

TEST(MeshThreads, ManyThreadsReceiveDifferentTopicsAtOnce) {
  TemporaryDirectory directory;
  std::shared_ptr<Mesh> meshes[2];
  as_threads(2, [&](int rank) { meshes[rank] = connect(directory.path(), rank, 2); });
  constexpr int kTopics = 16;
  as_threads(2 * kTopics, [&](int index) {
    const Topic topic{MessageKind::vote, 9, static_cast<uint64_t>(index / 2), 0};
    if (index % 2 == 0) {
      for (int i = 0; i < 50; ++i) EXPECT_EQ(hear(*meshes[1], 0, topic, 4), format("%04d", i));
    } else {
      for (int i = 0; i < 50; ++i) say(*meshes[0], 1, topic, format("%04d", i));
    }
  });
}

TEST(MeshThreads, MissingRanksAreNamedOnAllThatCame) {
  TemporaryDirectory directory;
  as_threads(3, [&](int index) {
    const int ranks[] = {0, 2, 3};
    const Failure failure = failure_of([&] { connect(directory.path(), ranks[index], 6, 300); });
    EXPECT_EQ(failure.status, Status::timeout);
    EXPECT_EQ(failure.rank, 1);
    EXPECT_EQ(failure.message, "ranks 1, 4, 5 did not come within 300 ms");
  });
}

TEST(MeshThreads, RanksThatDisagreeAllFailAlike) {
  TemporaryDirectory directory;
  Failure failures[3];
  as_threads(3,
             [&](int rank) { failures[rank] = failure_of([&] { connect(directory.path(), rank, rank == 2 ? 4 : 3, 2'000); }); });
  for (const Failure& failure : failures) {
    EXPECT_EQ(failure.status, Status::mismatch) << failure.message;
    EXPECT_EQ(failure.message, failures[0].message);
  }
}

TEST(MeshThreads, AbortReachesAllMembersAndOnlyThem) {
  TemporaryDirectory directory;
  as_threads(3, [&](int rank) {
    const auto mesh = connect(directory.path(), rank, 3);
    const auto all = attach_all(*mesh, 1);
    const auto pair = std::make_shared<Revocation>(2);
    if (rank != 0) mesh->attach(2, {2, 1}, pair);
    greet(*mesh, 1);
    if (rank == 1) mesh->broadcast_failure(2, {Status::aborted, 1, 77, "enough"});
    if (rank == 2) {
      const Failure failure = await_failure(*pair);
      EXPECT_EQ(failure.status, Status::aborted);
      EXPECT_EQ(failure.rank, 1);
      EXPECT_EQ(failure.pid, 77);
      EXPECT_EQ(failure.message, "enough");
    }
    greet(*mesh, 2);
    EXPECT_FALSE(all->revoked());
    greet(*mesh, 3);
  });
}

TEST(MeshThreads, DepartureEndsWaitsForThatRankOnly) {
  TemporaryDirectory directory;
  as_threads(3, [&](int rank) {
    const auto mesh = connect(directory.path(), rank, 3);
    const auto revocation = attach_all(*mesh, kTopic.group);
    greet(*mesh, 1);
    if (rank == 2) return mesh->detach(kTopic.group);
    const Failure failure = failure_of([&] { hear(*mesh, 2, kTopic, 4, revocation.get()); });
    EXPECT_EQ(failure.status, Status::peer_failed);
    EXPECT_EQ(failure.rank, 2);
    EXPECT_NE(failure.message.find("left the group"), std::string::npos) << failure.message;
    EXPECT_TRUE(revocation->departed(2));
    EXPECT_FALSE(revocation->revoked());
    say(*mesh, 1 - rank, kTopic, "here");
    EXPECT_EQ(hear(*mesh, 1 - rank, kTopic, 4, revocation.get()), "here");
  });
}

TEST(MeshThreads, EventsBeforeAttachAreReplayed) {
  TemporaryDirectory directory;
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

TEST(MeshThreads, WrongSizesAreAFault) {
  TemporaryDirectory directory;
  as_threads(2, [&](int rank) {
    const auto mesh = connect(directory.path(), rank, 2);
    const auto revocation = attach_all(*mesh, kTopic.group);
    greet(*mesh, 1);
    say(*mesh, 1 - rank, kTopic, "four");
    const Failure failure = failure_of([&] { hear(*mesh, 1 - rank, kTopic, 5); });
    EXPECT_EQ(failure.status, Status::peer_failed);
    EXPECT_NE(failure.message.find("broke the protocol"), std::string::npos) << failure.message;
    EXPECT_TRUE(revocation->revoked());
  });
}

TEST(MeshThreads, AFloodOfUnreadMessagesFailsItsSender) {
  TemporaryDirectory directory;
  std::shared_ptr<Mesh> meshes[2];
  std::shared_ptr<Revocation> revocations[2];
  as_threads(2, [&](int rank) {
    meshes[rank] = connect(directory.path(), rank, 2);
    revocations[rank] = attach_all(*meshes[rank], kTopic.group);
  });
  for (int i = 0; i < 5'000; ++i) say(*meshes[0], 1, kTopic, "flood");
  EXPECT_NE(revocations[1]->failure().message.find("more than anybody reads"), std::string::npos);
}

TEST(MeshThreads, WaitEndsAtItsDeadlineAndByRevocation) {
  TemporaryDirectory directory;
  std::shared_ptr<Mesh> meshes[2];
  as_threads(2, [&](int rank) { meshes[rank] = connect(directory.path(), rank, 2); });
  const Failure late = failure_of([&] { hear(*meshes[0], 1, kTopic, 4, nullptr, 50); });
  EXPECT_EQ(late.status, Status::timeout);
  EXPECT_EQ(late.rank, 1);
  Revocation revocation(2);
  std::thread other([&] { revocation.revoke({Status::aborted, 1, 2, "stop"}); });
  EXPECT_EQ(failure_of([&] { hear(*meshes[0], 1, kTopic, 4, &revocation); }).message, "stop");
  other.join();
}

}  // namespace
