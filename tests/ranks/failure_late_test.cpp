// SPDX-License-Identifier: Apache-2.0
//
// A rank that was stopped goes on after the others have given it up. It must neither succeed with what it finds nor harm what
// they do since.
#include <signal.h>

#include <algorithm>

#include "tests/ranks/failure.hpp"

namespace support {
namespace {

constexpr uint64_t kTimeoutMs = 1000;

Config impatient(const Bootstrap& meeting) {
  Config config = meeting.processes();
  config.timeout_ms = kTimeoutMs;
  config.create_timeout_ms = 5 * kTimeoutMs;
  return config;
}

// Rank 1 is stopped before a call in which rank 0 gives up; `after` is what rank 0 does then, before rank 1 goes on.
void expect_late_call_to_fail(const std::function<symm_status_t(Member&)>& call, const std::function<void(Member&)>& after) {
  const Bootstrap meeting;
  const Config config = impatient(meeting);
  const Shared<Facts> facts;
  Processes processes(2, [&](int rank) {
    Member member(config, rank, 2, &*facts);
    check(call(member));
    if (rank == 1) raise(SIGSTOP);
    const symm_status_t status = call(member);
    EXPECT_NE(status, SYMM_OK) << "the other rank had given up; the result is " << member.symmetric_recv()[0];
    if (rank == 0) {
      EXPECT_EQ(status, SYMM_ERR_TIMEOUT) << symm_last_error();
      after(member);
    }
    ++facts->failed;
    EXPECT_TRUE(eventually([&] { return facts->failed == 2; }))
        << "rank 0 stays, so that rank 1 does not learn it from its departure";
  });
  EXPECT_TRUE(eventually([&] { return facts->failed == 1; }));
  processes[1].kill(SIGCONT);
  processes.expect_success();
}

// When a call has failed, its operands are the caller's again, and are overwritten.
void expect_no_stale_result(symm_algorithm_values algorithm, size_t count) {
  expect_late_call_to_fail(
      [&](Member& m) { return allreduce(m.group, m.symmetric_send(), m.symmetric_recv(), count, algorithm); },
      [&](Member& m) { std::fill_n(m.symmetric_send(), count, 77.0F); });
}

TEST(Late, NoStaleResultOfLl) { expect_no_stale_result(SYMM_ALGORITHM_LL, 2); }
TEST(Late, NoStaleResultOfOneShot) { expect_no_stale_result(SYMM_ALGORITHM_ONE_SHOT, 512); }
TEST(Late, NoStaleResultOfTwoShot) { expect_no_stale_result(SYMM_ALGORITHM_TWO_SHOT, 4096); }
TEST(Late, NoStaleResultOfStaged) { expect_no_stale_result(SYMM_ALGORITHM_TWO_SHOT_STAGED, 4096); }

TEST(Late, NoBarrierPassedAlone) {
  expect_late_call_to_fail([](Member& m) { return symm_barrier(m.group.get(), nullptr, 0, 0, 0, nullptr); }, [](Member&) {});
}

TEST(Late, NoBarrierOfSomePassedAlone) {
  // Of three ranks, so that two are a subset.
  const Bootstrap meeting;
  const Config config = impatient(meeting);
  const Shared<Facts> facts;
  Processes processes(3, [&](int rank) {
    Member member(config, rank, 3, &*facts);
    if (rank == 1) raise(SIGSTOP);
    const int32_t ranks[] = {0, 1};
    if (rank != 2) {
      EXPECT_NE(symm_barrier(member.group.get(), ranks, 2, 0, 0, nullptr), SYMM_OK);
    }
    ++facts->failed;
    EXPECT_TRUE(eventually([&] { return facts->failed == 3; }));
  });
  EXPECT_TRUE(eventually([&] { return facts->failed == 2; }));
  processes[1].kill(SIGCONT);
  processes.expect_success();
}

// What the late rank does with all its might: write wherever it had mapped something, signal, call.
void rage(Member& member, const Facts& facts) {
  for (uint8_t value = 1; facts.go == 0; ++value) {
    for (int peer = 0; peer < member.size; ++peer) {
      std::fill_n(member.block.at<uint8_t>(peer), Member::kBlock, value);
      std::fill_n(member.block.memory.signal_pad(peer).data(), 64 * member.size, value);
      symm_put_signal(member.block.memory.get(), peer, 3, nullptr);
    }
    EXPECT_NE(allreduce(member.group, member.send.data(), member.recv.data(), 1000), SYMM_OK);
  }
}

void expect_zombie_to_do_no_harm(const std::string& second_name) {
  constexpr int kRanks = 3;
  constexpr int kVictim = 2;
  const Bootstrap meeting;
  const Config config = impatient(meeting);
  const Shared<Facts> facts;
  Processes processes(kRanks, [&](int rank) {
    {
      Member member(config, rank, kRanks, &*facts);
      if (rank == kVictim) {
        raise(SIGSTOP);
        ++facts->ready;
        rage(member, *facts);
        return;
      }
      const symm_status_t status = until_failure(member, operations().front());
      expect_blame(member.group, status, SYMM_ERR_TIMEOUT, kVictim, facts->pids[kVictim]);
    }
    ++facts->failed;
    EXPECT_TRUE(eventually([&] { return facts->ready == 1; }));
    Config second = meeting.processes();
    second.name = second_name;
    for (int i = 0; i < 3; ++i) expect_working(second, rank, 2, 100);
    if (++facts->failed == 4) facts->go = 1;
  });
  EXPECT_TRUE(eventually([&] { return facts->failed == 2; }));
  processes[kVictim].kill(SIGCONT);
  processes.expect_success();
  expect_empty(meeting.path());
}

TEST(Zombie, CannotHarmANewGroupOfTheSameName) { expect_zombie_to_do_no_harm(""); }
TEST(Zombie, CannotHarmANewGroupOfAnotherName) { expect_zombie_to_do_no_harm("second"); }

}  // namespace
}  // namespace support
