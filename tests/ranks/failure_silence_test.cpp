// A rank is stopped: the others time out at their deadline and name it. When it goes
// on, it learns that it is no longer part of anything; it must neither succeed with
// what it finds nor harm what they do since.
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/ranks/failure.hpp"

namespace support {
namespace {
class Silence : public testing::TestWithParam<Operation> {};

TEST_P(Silence, TimesOutForAllAndIsNoticedByTheLateRank) {
  constexpr int kVictim = kRanks - 1;
  const auto body = [](Member& member) {
    Facts& facts = member.facts;
    for (int round = 0; round < 3; ++round) {
      GetParam().call(member);
    }
    if (member.rank == kVictim) {
      facts.moment_ns = now_ns();
      raise(SIGSTOP);
      const symm_status_t status = until_failure(member, GetParam());
      EXPECT_TRUE(status == SYMM_ERR_TIMEOUT || status == SYMM_ERR_PEER_FAILED)
          << symm_status_string(status) << ": " << symm_last_error();
      const std::string message = symm_last_error();
      EXPECT_EQ(
          message.find("(pid " + std::to_string(getpid()) + ") did not come"), std::string::npos)
          << "a rank is told that it did not come itself: " << message;
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

INSTANTIATE_TEST_SUITE_P(Each, Silence, testing::ValuesIn(operations()), operation_name);

// The message of a time-out has the tag of the call in which it was found.
TEST(SilenceInACallWithATag, IsToldWithTheTag) {
  constexpr int kVictim = 2;
  const auto body = [](Member& member) {
    if (member.rank == kVictim) {
      raise(SIGSTOP);
      return;
    }
    float value = 1;
    const symm_status_t status = symm_allreduce(member.group.get(), &value, &value, 1,
        SYMM_DTYPE_F32, SYMM_OP_SUM, tagged("layer 7\n"), nullptr);
    expect_failed(status, SYMM_ERR_TIMEOUT, {"did not come", "has the tag \"layer 7 \""});
    ++member.facts.failed;
  };

  as_members(kRanks, body, {.stops = kVictim});
}

// The root of a broadcast waits for the stopped rank, and another rank
// for the root. Both must name the rank that is to blame, although the
// deadline of the rank that only waits for the root passes first.
TEST(SilenceOfAThird, IsNotBlamedOnARankThatWaitsForItToo) {
  constexpr int kVictim = 2;
  const auto body = [](Member& member) {
    if (member.rank == kVictim) {
      raise(SIGSTOP);
      return;
    }
    if (member.rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const auto call = [&] {
      collective(member, SYMM_COLLECTIVE_BROADCAST, SYMM_ALGORITHM_TWO_SHOT_STAGED,
          member.send.size(), false);
    };
    member.expect_blame(outcome_of(call).status, SYMM_ERR_TIMEOUT, kVictim);
    ++member.facts.failed;
  };

  as_members(kRanks, body, {.stops = kVictim});
}

// A rank may be stopped in the middle of writing, and writes on when it is resumed.
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

// Survivors that go on together have left the calls of the former group, also if a later group has
// only some of them.
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

// ---- it goes on after the others have given it up

// Rank 1 is stopped before a call of it and rank 0, in which rank 0 gives up; `after`
// is what rank 0 does then, before rank 1 goes on.
void expect_late_call_to_fail(
    int size, const std::function<symm_status_t(Member&)>& call,
    const std::function<void(Member&)>& after = [](Member&) {}) {
  const auto body = [&](Member& member) {
    if (member.rank < 2) {
      check(call(member));
      if (member.rank == 1) raise(SIGSTOP);
      const symm_status_t status = call(member);
      EXPECT_NE(status, SYMM_OK) << "the other rank had given up; the result is "
                                 << member.symmetric_recv()[0];
      if (member.rank == 0) {
        EXPECT_EQ(status, SYMM_ERR_TIMEOUT) << symm_last_error();
        after(member);
      }
    }
    ++member.facts.failed;
    EXPECT_TRUE(eventually([&] { return member.facts.failed == size; }))
        << "the others stay, so that rank 1 does not learn it from their departure";
  };

  as_members(size, body, {.stops = 1});
}

// When a call has failed, its operands are the caller's again, and are overwritten.
TEST(Late, NoStaleResult) {
  for (const auto& [algorithm, count] :
      {std::pair(SYMM_ALGORITHM_LL, size_t{2}), {SYMM_ALGORITHM_ONE_SHOT, 512},
          {SYMM_ALGORITHM_TWO_SHOT, 4096}, {SYMM_ALGORITHM_TWO_SHOT_STAGED, 4096}}) {
    SCOPED_TRACE(algorithm);
    const auto call = [&](Member& m) {
      return allreduce(m.group, m.symmetric_send(), m.symmetric_recv(), count, algorithm);
    };
    expect_late_call_to_fail(
        2, call, [&](Member& m) { std::fill_n(m.symmetric_send(), count, 77.0F); });
  }
}

TEST(Late, NoBarrierPassedAlone) {
  expect_late_call_to_fail(
      2, [](Member& m) { return symm_barrier(m.group.get(), nullptr, 0, 0, nullptr, nullptr); });
  // A barrier of two of three ranks is one of a subset.
  const int32_t some[] = {0, 1};
  expect_late_call_to_fail(
      3, [&](Member& m) { return symm_barrier(m.group.get(), some, 2, 0, nullptr, nullptr); });
}

// The late rank does all the harm that it can: it writes to whatever it had mapped, signals, and
// calls.
void rage(Member& member) {
  for (uint8_t value = 1; member.facts.go == 0; ++value) {
    for (int peer = 0; peer < member.size; ++peer) {
      std::fill_n(member.block.at<uint8_t>(peer), Member::kBlock, value);
      std::fill_n(member.block.memory.signal_pad(peer).data(), 64 * member.size, value);
      symm_signal(member.block.memory.get(), peer, 3, nullptr, nullptr);
    }
    EXPECT_NE(allreduce(member.group, member.send.data(), member.recv.data(), 1000), SYMM_OK);
  }
}

void expect_zombie_to_do_no_harm(const std::string& second_name) {
  constexpr int kVictim = 2;
  const auto body = [&](int rank, const Config& config, Facts& facts) {
    {
      Member member(config, rank, kRanks, facts);
      if (rank == kVictim) {
        raise(SIGSTOP);
        ++facts.ready;
        rage(member);
        return;
      }
      member.expect_blame(until_failure(member, operations().front()), SYMM_ERR_TIMEOUT, kVictim);
    }
    ++facts.failed;
    EXPECT_TRUE(eventually([&] { return facts.ready == 1; }));
    const Config second{config.bootstrap, second_name};
    for (int i = 0; i < 3; ++i) {
      expect_working(second, rank, 2, 100);
    }
    if (++facts.failed == 4) facts.go = 1;
  };

  as_ranks(kRanks, body, {.stops = kVictim});
}

TEST(Zombie, CannotHarmANewGroupOfTheSameName) { expect_zombie_to_do_no_harm(""); }

TEST(Zombie, CannotHarmANewGroupOfAnotherName) { expect_zombie_to_do_no_harm("second"); }
}  // namespace
}  // namespace support
