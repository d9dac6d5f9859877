#include "core/bootstrap/rank_lock.hpp"
#include "core/socket/directory.hpp"
#include "tests/support/core.hpp"

namespace {
using namespace symm;
using namespace support;

class ClaimTest : public ::testing::Test {
 protected:
  // As a rank does: the turn to lock may be another's for a moment.
  std::optional<RankLock> take(int rank) {
    std::optional<RankLock> rank_lock;
    retry_until([&] { return (rank_lock = RankLock::take(directory_.get(), rank, 4)).has_value(); }, Deadline::after_ms(100));
    return rank_lock;
  }
  RankLockState state(int rank) { return look_at_rank_lock(directory_.get(), rank).state; }

  TemporaryDirectory top_;
  Fd directory_ = open_private_directory(top_.path(), false);
};

TEST_F(ClaimTest, WithdrawnIsFreeAndLeftIsNot) {
  std::optional<RankLock> rank_lock = take(1);
  rank_lock->withdraw();
  EXPECT_EQ(state(1), RankLockState::absent);
  EXPECT_TRUE(was_locked(directory_.get(), 1));
  EXPECT_FALSE(was_locked(directory_.get(), 2));
  rank_lock = take(1);
  ASSERT_TRUE(rank_lock);
  rank_lock->leave();
  EXPECT_EQ(state(1), RankLockState::left);
  EXPECT_FALSE(take(1));
}

TEST_F(ClaimTest, OfADeadOwnerGoesToOneOfManyWhoWantIt) {
  for (int round = 0; round < 10; ++round) {
    { const std::optional<RankLock> dead = take(1); }
    ASSERT_EQ(state(1), RankLockState::dead);
    std::vector<std::optional<RankLock>> rank_locks(4);
    std::atomic<int> ready{0};
    as_threads(4, [&](int thread) {
      ++ready;
      while (ready < 4) {}
      rank_locks[static_cast<size_t>(thread)] = take(1);
    });
    int owners = 0;
    for (const auto& rank_lock : rank_locks) owners += rank_lock ? 1 : 0;
    ASSERT_EQ(owners, 1);
  }
}
}  // namespace
