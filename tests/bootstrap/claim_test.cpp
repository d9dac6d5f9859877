// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/claim.hpp"

#include <signal.h>

#include <atomic>

#include "core/socket/directory.hpp"
#include "tests/bootstrap/support.hpp"

namespace {

using namespace symm;
using namespace support;

class ClaimTest : public ::testing::Test {
 protected:
  // As a rank does: the turn to claim may be another's for a moment.
  std::optional<Claim> take(int rank) {
    std::optional<Claim> claim;
    retry_until([&] { return (claim = Claim::take(directory_.get(), rank, 4)).has_value(); }, Deadline::after_ms(100));
    return claim;
  }
  ClaimState state(int rank) { return look_at_claim(directory_.get(), rank).state; }

  Process hold(int rank) {
    return Process([this, rank](Process& self) {
      const std::optional<Claim> claim = take(rank);
      if (claim) self.tell();
      pause();
      return std::string();
    });
  }

  TemporaryDirectory top_;
  Fd directory_ = open_private_directory(top_.path(), false);
};

TEST_F(ClaimTest, IsHeldByOneAndTellsWho) {
  EXPECT_EQ(state(2), ClaimState::absent);
  const std::optional<Claim> claim = take(2);
  ASSERT_TRUE(claim);
  const ClaimInfo info = look_at_claim(directory_.get(), 2);
  EXPECT_EQ(info.state, ClaimState::held);
  EXPECT_EQ(info.pid, getpid());
  EXPECT_EQ(info.size, 4);
  EXPECT_FALSE(take(2));
  EXPECT_TRUE(take(3));
}

TEST_F(ClaimTest, OfAKilledProcessIsDeadAndCanBeTakenOver) {
  Process owner = hold(1);
  ASSERT_TRUE(owner.told());
  EXPECT_EQ(state(1), ClaimState::held);
  EXPECT_FALSE(take(1));
  const int pid = owner.pid();
  owner.signal(SIGKILL);
  owner.result();
  EXPECT_EQ(state(1), ClaimState::dead);
  EXPECT_EQ(look_at_claim(directory_.get(), 1).pid, pid);
  const std::optional<Claim> mine = take(1);
  ASSERT_TRUE(mine);
  EXPECT_EQ(look_at_claim(directory_.get(), 1).pid, getpid());
}

TEST_F(ClaimTest, OfAStoppedProcessIsSeenAsStopped) {
  Process owner = hold(1);
  ASSERT_TRUE(owner.told());
  owner.signal(SIGSTOP);
  EXPECT_EQ(state(1), ClaimState::stopped);
  EXPECT_FALSE(take(1));
}

TEST_F(ClaimTest, WithdrawnIsFreeAndLeftIsNot) {
  std::optional<Claim> claim = take(1);
  claim->withdraw();
  EXPECT_EQ(state(1), ClaimState::absent);
  EXPECT_TRUE(was_claimed(directory_.get(), 1));
  EXPECT_FALSE(was_claimed(directory_.get(), 2));
  claim = take(1);
  ASSERT_TRUE(claim);
  claim->leave();
  EXPECT_EQ(state(1), ClaimState::left);
  EXPECT_FALSE(take(1));
}

TEST_F(ClaimTest, DroppedWithoutAWordIsDead) {
  { const std::optional<Claim> claim = take(1); }
  EXPECT_EQ(state(1), ClaimState::dead);
}

TEST_F(ClaimTest, OfADeadOwnerGoesToOneOfManyWhoWantIt) {
  for (int round = 0; round < 10; ++round) {
    { const std::optional<Claim> dead = take(1); }
    ASSERT_EQ(state(1), ClaimState::dead);
    std::vector<std::optional<Claim>> claims(4);
    std::atomic<int> ready{0};
    as_threads(4, [&](int thread) {
      ++ready;
      while (ready < 4) {
      }
      claims[static_cast<size_t>(thread)] = take(1);
    });
    int owners = 0;
    for (const auto& claim : claims) owners += claim ? 1 : 0;
    ASSERT_EQ(owners, 1);
  }
}

}  // namespace
