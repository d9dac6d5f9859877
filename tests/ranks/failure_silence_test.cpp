// A rank is stopped: the others time out at their deadline and name it. When it goes on, it learns that it is no longer part of
// anything.
#include "tests/ranks/failure.hpp"

namespace support { namespace {
constexpr int kRanks = 3;

class Silence : public testing::TestWithParam<Operation> {};

TEST_P(Silence, TimesOutForAllAndIsNoticedByTheLateRank) {
  constexpr int kVictim = kRanks - 1;
  const auto body = [](Member& member) {
    Facts& facts = member.facts;
    for (int round = 0; round < 3; ++round) GetParam().call(member);
    if (member.rank == kVictim) {
      facts.moment_ns = now_ns();
      raise(SIGSTOP);
      const symm_status_t status = until_failure(member, GetParam());
      EXPECT_TRUE(status == SYMM_ERR_TIMEOUT || status == SYMM_ERR_PEER_FAILED)
          << symm_status_string(status) << ": " << symm_last_error();
      return;
    }
    const symm_status_t status = until_failure(member, GetParam());
    const int64_t waited_ms = (now_ns() - facts.moment_ns) / 1'000'000;
    if (GetParam().name == "wait_signal") {  // nothing was taken, so nothing is lost
      expect_named(status, SYMM_ERR_TIMEOUT, kVictim, facts.pids[kVictim]);
      EXPECT_EQ(member.group.status().status, SYMM_OK);
    } else {
      member.expect_blame(status, SYMM_ERR_TIMEOUT, kVictim);
    }
    EXPECT_GE(waited_ms, static_cast<int64_t>(kShortTimeoutMs / 2)) << "that was no deadline";
    ++facts.failed;
  };
  as_members(kRanks, body, {.stops = kVictim});
}

INSTANTIATE_TEST_SUITE_P(Each, Silence, testing::ValuesIn(operations()), name_of);

// The root of a broadcast waits for the stopped rank, and another rank for the root. Both must name the rank that is to blame,
// although the deadline of the rank that only waits for the root passes first.
TEST(SilenceOfAThird, IsNotBlamedOnWhoWaitsForItToo) {
  constexpr int kVictim = 2;
  const auto body = [](Member& member) {
    if (member.rank == kVictim) {
      raise(SIGSTOP);
      return;
    }
    if (member.rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const auto call = [&] {
      collective(member, SYMM_COLLECTIVE_BROADCAST, SYMM_ALGORITHM_TWO_SHOT_STAGED, member.send.size(), false);
    };
    member.expect_blame(outcome_of(call).status, SYMM_ERR_TIMEOUT, kVictim);
    ++member.facts.failed;
  };
  as_members(kRanks, body, {.stops = kVictim});
}

// Who is stopped may be in the middle of writing, and writes on when it is resumed.
TEST(SilenceOfAWriter, KeepsItsMemoryFromNewGroupsUntilItIsDead) {
  constexpr int kVictim = 2;
  const auto body = [](int rank, Config config, Facts& facts) {
    config.timeout_ms = kShortTimeoutMs;
    Member member(config, rank, kRanks, facts);
    if (rank == kVictim) {
      raise(SIGSTOP);
      sleep_for_ever();
    }
    EXPECT_EQ(until_failure([&] { member.group.barrier(); }), SYMM_ERR_TIMEOUT);
    const Buffer& kept = member.block.buffer;
    member.block.memory = {};
    if (rank == 0) member.group = {};  // the other one keeps its handle
    config.name = "survivors";
    const Group survivors = create(config, rank, 2);
    const std::string victim = "pid " + std::to_string(facts.pids[kVictim]);
    expect_failure(SYMM_ERR_UNAVAILABLE, {victim}, [&] { survivors.rendezvous(kept); });
    expect_failure(SYMM_ERR_UNAVAILABLE, {}, [&] { symm::ipc_export(kept.span<std::byte>()); });
    survivors.rendezvous(survivors.allocate(4096));
    survivors.barrier();
    if (rank == 0) kill(static_cast<pid_t>(facts.pids[kVictim]), SIGKILL);
    survivors.rendezvous(kept);
    symm::ipc_export(kept.span<std::byte>());
    survivors.barrier();
  };
  as_ranks(kRanks, body, {.die = {kVictim}});
}

// Those that go on together are out of the calls of before, also where a later group has some of them only.
TEST(SilenceOfAWriter, IsNotThatOfSurvivors) {
  constexpr int kVictim = 3;
  as_members(4,
      [](Member& member) {
        if (member.rank == kVictim) raise(SIGKILL);
        until_failure([&] { member.group.barrier(); });
        const Group survivors = member.group.shrink();
        const Group part = survivors.split(survivors.rank() / 2);
        part.rendezvous(member.block.buffer);
        part.barrier();
      },
      {.die = {kVictim}});
}
}}  // namespace support
