// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/store.hpp"

#include "tests/support/core.hpp"

namespace {

using namespace symm;
using namespace support;

TEST(ThreadStore, EveryRankReadsWhatEveryRankSetRoundAfterRound) {
  as_threads(4, [](int rank) {
    for (int round = 0; round < 50; ++round) {
      const auto store = open_thread_store("rounds", rank, 4, soon());
      ASSERT_EQ(store->describe(), "thread://rounds");
      ASSERT_EQ(store->directory(), "");
      const auto value = [&](int of) { return bytes_of(std::to_string(round) + "." + std::to_string(of)); };
      store->set(std::to_string(rank), value(rank), soon());
      for (int peer = 0; peer < 4; ++peer) ASSERT_EQ(store->get(std::to_string(peer), soon()), value(peer));
    }
  });
}

TEST(ThreadStore, KeysAreSetOnceAndAwaitedUntilTheDeadline) {
  const auto store = open_thread_store("keys", 0, 1, soon());
  store->set("key", bytes_of("1"), soon());
  EXPECT_EQ(failure_of([&] { store->set("key", bytes_of("2"), soon()); }).status, Status::mismatch);
  EXPECT_EQ(text_of(store->get("key", soon())), "1");
  expect_failure(Status::timeout, {"\"other\""}, [&] { store->get("other", Deadline::after_ms(20)); });
}

TEST(ThreadStore, KeysVanishWithTheirCreation) {
  open_thread_store("again", 0, 1, soon())->set("key", bytes_of("old"), soon());
  const auto store = open_thread_store("again", 0, 1, soon());
  EXPECT_EQ(failure_of([&] { store->get("key", Deadline::after_ms(20)); }).status, Status::timeout);
}

TEST(ThreadStore, MissingRanksAreNamedByEveryRank) {
  as_threads(2, [](int thread) {
    EXPECT_EQ(expect_failure(Status::timeout, {"ranks 1, 3 of 4"},
                             [&] { open_thread_store("missing", thread * 2, 4, Deadline::after_ms(200)); })
                  .rank,
              1);
  });
  // And what failed is forgotten.
  as_threads(4, [](int rank) { ASSERT_NE(open_thread_store("missing", rank, 4, soon()), nullptr); });
}

TEST(ThreadStore, ARankTakenTwiceFailsAll) {
  as_threads(2, [](int) {
    EXPECT_EQ(
        expect_failure(Status::mismatch, {"rank 1 of thread://twice"}, [] { open_thread_store("twice", 1, 3, soon()); }).rank, 1);
  });
}

TEST(ThreadStore, DifferentSizesFailAll) {
  as_threads(2, [](int rank) {
    expect_failure(Status::mismatch, {"3", "2"}, [&] { open_thread_store("sizes", rank, 2 + rank, soon()); });
  });
}

TEST(ThreadStore, ARankWhoseCreationFailsIsNotAwaited) {
  as_threads(2, [](int rank) {
    const Failure failure = failure_of([&] {
      const auto store = open_thread_store("fails", rank, 2, soon());
      if (rank == 1) throw Error(Status::out_of_memory, "something else went wrong");
      store->get("address.1", soon());
    });
    ASSERT_EQ(failure.status, rank == 1 ? Status::out_of_memory : Status::peer_failed) << failure.message;
    ASSERT_EQ(failure.rank, rank == 1 ? -1 : 1);
  });
}

}  // namespace
