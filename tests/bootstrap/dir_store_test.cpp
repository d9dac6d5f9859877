// How ranks assemble in a directory, whatever others do or did in it, and what they keep there.
#include "core/bootstrap/dir_store.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/directory_rendezvous.hpp"
#include "core/bootstrap/rank_lock.hpp"
#include "core/bootstrap/tombstone.hpp"
#include "core/socket/directory.hpp"
#include "tests/bootstrap/tombstones.hpp"
#include "tests/support/core.hpp"

namespace {
using namespace symm;
using namespace support;

class DirStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<DirStore> open(int rank, int size, uint64_t milliseconds = 20'000,
      const std::string& name = "", const std::string& job = "") const {
    return std::make_unique<DirStore>(
        DirectoryRendezvousConfig{base_, name, job, "dir://" + base_, rank, size, false},
        Deadline::after_ms(milliseconds));
  }

  static Process process(const std::function<std::string()>& body) {
    return Process([&] { return outcome_of(body); });
  }

  // A process that opens its store, tells its pid
  // to all, and gives the pids of all, as "1 2 3".
  Process rank_process(int rank, int size, const std::string& job = "") const {
    return process([=, this] {
      const auto store = open(rank, size, 20'000, "", job);
      store->set("pid." + std::to_string(rank), bytes_of(std::to_string(getpid())), soon());
      std::string all;
      for (int peer = 0; peer < size; ++peer) {
        all += (peer == 0 ? "" : " ") + text_of(store->get("pid." + std::to_string(peer), soon()));
      }
      return all;
    });
  }

  // Rank 0 or another that came, and stays without ever being done.
  Process waiting_process(int rank, int size) const {
    return process([=, this] {
      open(rank, size, 60'000);
      return "done";
    });
  }

  // A rank that begins now, and comes `milliseconds` later.
  Process late_process(int rank, int size, int milliseconds, const std::string& job = "") const {
    return process([=, this] {
      usleep(static_cast<useconds_t>(milliseconds) * 1000);
      open(rank, size, 6'000, "", job);
      return "done";
    });
  }

  bool came(int rank) const {
    return retry_until(
        [&] {
          for (const auto& entry : std::filesystem::recursive_directory_iterator(top_.path())) {
            if (entry.path().filename() == "rank." + std::to_string(rank)) return true;
          }
          return false;
        },
        soon());
  }

  TemporaryDirectory top_;
  std::string base_ = top_ / "job";
};

// Expects that these ranks, from 0 on, have each read what all have set.
void expect_to_have_met(const std::vector<Process*>& ranks) {
  std::string pids;
  for (const Process* rank : ranks) {
    pids += (pids.empty() ? "" : " ") + std::to_string(rank->pid());
  }
  for (Process* rank : ranks) {
    EXPECT_EQ(rank->result(), pids);
  }
}

void expect_to_name(Process& survivor, int rank, int pid) {
  const std::string result = survivor.result();
  EXPECT_EQ(result.rfind("peer failed: rank " + std::to_string(rank) + " of", 0), 0u) << result;
  EXPECT_NE(result.find("pid " + std::to_string(pid)), std::string::npos) << result;
}

TEST_F(DirStoreTest, DifferentNamesAndJobsDoNotMeet) {
  as_threads(6, [&](int thread) {
    const std::string name = thread < 2 ? "a" : "b";
    const auto store = open(thread % 2, 2, 20'000, name, thread < 4 ? "" : "job");
    store->set(std::to_string(thread % 2), bytes_of(std::to_string(thread / 2)), soon());
    ASSERT_EQ(
        text_of(store->get(std::to_string(1 - thread % 2), soon())), std::to_string(thread / 2));
  });
}

TEST_F(DirStoreTest, TheRankTakenTwiceIsNamed) {
  Process first = waiting_process(1, 3);
  Process zero = waiting_process(0, 3);
  ASSERT_TRUE(came(1));
  const Failure failure = expect_failure(
      Status::mismatch, {"rank 1 of", "pid " + std::to_string(first.pid())}, [&] { open(1, 3); });
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(first.result(), "ranks disagree: " + failure.message);
  EXPECT_EQ(zero.result(), "ranks disagree: " + failure.message);
}

// Rank 0 makes the directory in which a rank is found taken, so it looks beside it.
TEST_F(DirStoreTest, RankZeroTakenTwiceIsNamed) {
  Process first = waiting_process(0, 2);
  ASSERT_TRUE(came(0));
  const Failure failure = expect_failure(
      Status::mismatch, {"rank 0 of", "pid " + std::to_string(first.pid())}, [&] { open(0, 2); });
  EXPECT_EQ(failure.rank, 0);
  EXPECT_EQ(failure.pid, first.pid());
}

TEST_F(DirStoreTest, OneOfManyRankZerosWins) {
  std::vector<Failure> failures(4);
  as_threads(4, [&](int thread) {
    failures[static_cast<size_t>(thread)] = failure_of([&] { open(0, 2, 3'000); });
  });

  int timed_out = 0;
  for (const Failure& failure : failures) {
    if (failure.status == Status::timeout) {
      ++timed_out;
    } else {
      EXPECT_EQ(failure.status, Status::mismatch) << failure.message;
    }
  }

  EXPECT_EQ(timed_out, 1);
}

TEST_F(DirStoreTest, WhatAKilledJobLeftIsPassedOverAndRemoved) {
  for (int round = 0; round < 3; ++round) {
    Process zero = waiting_process(0, 3);
    Process one = waiting_process(1, 3);
    ASSERT_TRUE(came(1));
    one.kill(SIGKILL);  // first: it would tidy up if it saw rank 0 die
    one.result();
    zero.kill(SIGKILL);
    zero.result();
    EXPECT_EQ(entries(base_).size(), 1u);
    Process new_one = rank_process(1, 2);
    Process new_zero = rank_process(0, 2);
    expect_to_have_met({&new_zero, &new_one});
    EXPECT_TRUE(entries(base_).empty());
  }
}

TEST_F(DirStoreTest, ARankGoesOnToTheRankZeroThatReplacesADeadOne) {
  Process one = rank_process(1, 3);
  Process old_zero = waiting_process(0, 3);
  ASSERT_TRUE(came(1));
  old_zero.kill(SIGKILL);
  old_zero.result();
  Process zero = rank_process(0, 3);
  Process two = rank_process(2, 3);
  expect_to_have_met({&zero, &one, &two});
}

TEST_F(DirStoreTest, AStoppedJobDoesNotHoldUpANewOne) {
  Process old_zero = waiting_process(0, 3);
  Process old_one = waiting_process(1, 3);
  ASSERT_TRUE(came(1));
  old_zero.kill(SIGSTOP);
  old_one.kill(SIGSTOP);
  Process one = rank_process(1, 3);  // finds the stopped rank 0 first
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  Process zero = rank_process(0, 3);
  Process two = rank_process(2, 3);
  expect_to_have_met({&zero, &one, &two});

  // The old job wakes up while yet another one is being formed, and must not harm that either.
  Process next_zero = rank_process(0, 2);
  ASSERT_TRUE(came(0));
  old_zero.kill(SIGCONT);
  Process next_one = rank_process(1, 2);
  expect_to_have_met({&next_zero, &next_one});
}

TEST_F(DirStoreTest, ARankThatDiesBeforeTheGroupIsCompleteIsNamed) {
  for (const int victim : {0, 1}) {
    std::vector<Process> ranks;
    for (const int rank : {0, 1}) {
      ranks.push_back(waiting_process(rank, 3));
    }
    Process two = waiting_process(2, 4);  // never gets in: another size
    two.kill(SIGKILL);
    ASSERT_TRUE(came(1));
    ranks[static_cast<size_t>(victim)].kill(SIGKILL);
    expect_to_name(
        ranks[static_cast<size_t>(1 - victim)], victim, ranks[static_cast<size_t>(victim)].pid());
  }
}

// The rank has no room for a file, so it cannot even write the reason.
TEST_F(DirStoreTest, ARankThatFailsOnTheWayInIsNotAwaited) {
  Process zero = waiting_process(0, 3);
  ASSERT_TRUE(came(0));
  Process one = process([&] {
    const rlimit nothing{0, 0};
    setrlimit(RLIMIT_FSIZE, &nothing);
    open(1, 3);
    return "came in";
  });
  EXPECT_EQ(one.result().rfind("system call failed: write: File too large", 0), 0u);
  EXPECT_NE(zero.result().find("system call failed: a rank came to dir://"), std::string::npos);
}

TEST_F(DirStoreTest, ARankThatDiesLaterIsNamedWhereItIsAwaitedAndWhatItSetCounts) {
  const auto body = [&](int rank) {
    return [this, rank] {
      const auto store = open(rank, 3);
      if (rank == 1) store->set("early", bytes_of("kept"), soon());
      tell();
      if (rank == 1) pause();
      return text_of(store->get("late", soon()));
    };
  };

  Process zero = process(body(0));
  Process one = process(body(1));
  const auto store = open(2, 3);
  ASSERT_TRUE(zero.told());
  ASSERT_TRUE(one.told());
  one.kill(SIGKILL);
  expect_to_name(zero, 1, one.pid());
  EXPECT_EQ(text_of(store->get("early", soon())), "kept");
  const Failure failure = failure_of([&] { store->get("late", soon()); });
  EXPECT_EQ(failure.status, Status::peer_failed);
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.pid, one.pid());
}

TEST_F(DirStoreTest, ARankThatIsDoneEarlyIsNotMistakenForDead) {
  as_threads(2, [&](int rank) {
    auto store = open(rank, 2);
    if (rank == 0) {
      store->set("last word", bytes_of("x"), soon());
      store.reset();
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ASSERT_EQ(text_of(store->get("last word", soon())), "x");
    ASSERT_EQ(failure_of([&] { store->get("nothing", Deadline::after_ms(100)); }).status,
        Status::timeout);
  });
}

// ---- ranks that come too late for an attempt that failed

TEST_F(DirStoreTest, ARankThatComesTooLateFailsAsThoseDidThatHadCome) {
  for (const int victim : {0, 1}) {
    for (const int milliseconds : {150, 800, 1'500}) {
      Process late = late_process(3, 4, milliseconds);
      Process latest = late_process(2, 4, milliseconds + 700);
      std::vector<Process> ranks;
      for (const int rank : {0, 1}) {
        ranks.push_back(waiting_process(rank, 4));
      }
      ASSERT_TRUE(came(1));

      Process& dead = ranks[static_cast<size_t>(victim)];
      dead.kill(SIGKILL);
      const std::string said = ranks[static_cast<size_t>(1 - victim)].result();
      EXPECT_EQ(said.rfind(format("peer failed: rank %d of", victim), 0), 0u) << said;
      EXPECT_EQ(late.result(), said) << milliseconds;
      EXPECT_EQ(latest.result(), said) << milliseconds;
      dead.result();
      EXPECT_EQ(entries(base_), std::vector<std::string>{}) << "all know";
    }
  }
}

TEST_F(DirStoreTest, ARankThatComesTooLateHearsThatTheSizesDiffer) {
  Process late = late_process(2, 3, 2'000);
  Process zero = waiting_process(0, 3);
  Process one = waiting_process(1, 4);
  const std::string said = zero.result();
  EXPECT_EQ(said.rfind("ranks disagree: rank 1 of", 0), 0u) << said;
  EXPECT_EQ(one.result(), said);
  EXPECT_EQ(late.result(), said);
}

// Rank 0 may write no file, so it makes no attempt that it could fail in.
TEST_F(DirStoreTest, ARankZeroThatCannotMakeAnAttemptIsNotAwaited) {
  for (const rlim_t bytes : {0, 3}) {
    Process one = late_process(1, 3, 0);
    Process late = late_process(2, 3, 1'000);
    Process zero = process([&] {
      const rlimit most{bytes, bytes};
      setrlimit(RLIMIT_FSIZE, &most);
      open(0, 3);
      return "came in";
    });
    const std::string said = zero.result();
    EXPECT_EQ(said.rfind("system call failed: rank 0 (pid", 0), 0u) << said;
    EXPECT_NE(said.find("File too large"), std::string::npos) << said;
    EXPECT_EQ(one.result(), said) << bytes;
    EXPECT_EQ(late.result(), said) << bytes;
  }
}

// What failed before a process began may be another launch, of which nobody is left.
TEST_F(DirStoreTest, ARankOfALaterLaunchWaitsForItsOwnRankZero) {
  for (const char* job : {"", "named"}) {
    std::vector<Process> ranks;
    for (const int rank : {0, 1}) {
      ranks.push_back(process([=, this] {
        open(rank, 3, 60'000, "", job);
        return "done";
      }));
    }
    ASSERT_TRUE(came(1));
    ranks[1].kill(SIGKILL);
    const std::string said = ranks[0].result();
    ranks[1].result();

    // Nobody comes: at the deadline the tombstone is the best that is known.
    const std::string alone = late_process(2, 3, 0, job).result();
    const bool named = *job != '\0';
    EXPECT_EQ(alone == said, named) << alone;
    EXPECT_NE(alone.find(said.substr(said.find("rank 1"))), std::string::npos) << alone;
    EXPECT_EQ(alone.rfind(named ? "peer failed" : "timed out: rank 0 did not come", 0), 0u)
        << alone;

    // Ranks of the next launch come before their rank
    // 0, one of which the first launch never had.
    Process two = rank_process(2, 3, job);
    Process one = rank_process(1, 3, job);
    std::this_thread::sleep_for(std::chrono::milliseconds(2'000));
    Process zero = rank_process(0, 3, job);
    expect_to_have_met({&zero, &one, &two});
    EXPECT_TRUE(entries(base_).empty());
  }
}

// A slow rank of a failed attempt may leave its tombstone when rank 0 has made the next one.
TEST_F(DirStoreTest, AMeetingOfAllRemovesTheTombstonesOfEarlierAttempts) {
  Process zero = rank_process(0, 2);
  ASSERT_TRUE(came(0));
  const std::vector<std::string> attempt = entries(base_);
  ASSERT_EQ(attempt.size(), 1u);
  const std::string stamp = "-0123456789abcdef-0123456789abcdef";
  const std::string prefix = attempt[0].substr(0, attempt[0].size() - stamp.size());
  const std::string earlier = prefix + "-0000000000000001-0000000000000001";

  ASSERT_TRUE(set_tombstone(base_ + "/" + name_of_tombstone(earlier), fresh_tombstone(2)));
  ASSERT_EQ(entries(base_).size(), 2u);

  Process one = rank_process(1, 2);
  expect_to_have_met({&zero, &one});
  EXPECT_EQ(entries(base_), std::vector<std::string>{});
}

// A rank 0 that is started again has an attempt for ranks that come late, and they take it.
TEST_F(DirStoreTest, ALateRankGoesOnToTheNextAttempt) {
  Process two = process([this] {
    usleep(2'000'000);
    const auto store = open(2, 3);
    store->set("pid.2", bytes_of(std::to_string(getpid())), soon());
    return text_of(store->get("pid.0", soon())) + " " + text_of(store->get("pid.1", soon())) + " " +
           text_of(store->get("pid.2", soon()));
  });
  Process old_zero = waiting_process(0, 3);
  Process old_one = waiting_process(1, 3);
  ASSERT_TRUE(came(1));
  old_one.kill(SIGKILL);
  EXPECT_EQ(old_zero.result().rfind("peer failed: rank 1 of", 0), 0u);
  EXPECT_EQ(entries(base_).size(), 1u) << "rank 2 has not come";

  Process zero = rank_process(0, 3);
  Process one = rank_process(1, 3);
  expect_to_have_met({&zero, &one, &two});
  EXPECT_TRUE(entries(base_).empty());
}

// ---- the lock of a rank

class ClaimTest : public ::testing::Test {
 protected:
  // Retries as a rank does: another process may hold the right to lock for a moment.
  std::optional<RankLock> take(int rank) {
    std::optional<RankLock> rank_lock;
    const auto takes = [&] {
      rank_lock = RankLock::take(directory_.get(), rank, 4);
      return rank_lock.has_value();
    };
    retry_until(takes, Deadline::after_ms(100));
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

TEST_F(ClaimTest, OfADeadOwnerGoesToOneOfManyContenders) {
  for (int round = 0; round < 10; ++round) {
    {
      const std::optional<RankLock> dead = take(1);
    }
    ASSERT_EQ(state(1), RankLockState::dead);
    std::vector<std::optional<RankLock>> rank_locks(4);
    std::atomic<int> ready{0};
    as_threads(4, [&](int thread) {
      ++ready;
      while (ready < 4) {
      }
      rank_locks[static_cast<size_t>(thread)] = take(1);
    });
    int owners = 0;
    for (const auto& rank_lock : rank_locks) {
      owners += rank_lock ? 1 : 0;
    }
    ASSERT_EQ(owners, 1);
  }
}
}  // namespace
