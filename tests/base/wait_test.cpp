#include "core/base/wait.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/page.hpp"
#include "tests/support/test.hpp"

namespace {
// Called instead of the kernel when this thread offers its processor to others.
thread_local std::function<void()> at_yield;
}  // namespace

// Replaces the function of the C library, which the library calls. How long a yield takes depends
// on what else wants the processor, so a test of waits that yield must not leave it to the kernel.
extern "C" int sched_yield() noexcept {
  if (!at_yield) return static_cast<int>(syscall(SYS_sched_yield));
  at_yield();
  return 0;
}

namespace symm {
namespace {
using std::chrono::milliseconds;

struct Waiting {
  Word word{0};
  Waiter waiter[1] = {};
  Revocation revocation{2};
  Fencing fencing = Fencing::symmetric;
  uint32_t yields = 0;

  WaitEnd wait(uint32_t target, uint64_t timeout_ms = 20'000, uint32_t spins = 0) {
    LazyDeadline deadline(timeout_ms);
    return wait_word(
        word, target, waiter[0], 1, revocation, SpinPolicy{spins, yields}, deadline, fencing);
  }

  void set(uint32_t value) { publish(word, value, waiter, fencing); }
};

TEST(Deadline, ExpiresAndNeverDoes) {
  EXPECT_TRUE(Deadline::after_ms(0).expired());
  EXPECT_FALSE(Deadline::after_ms(60'000).expired());
  EXPECT_GT(Deadline::after_ms(60'000).remaining_ms(), 50'000);
  EXPECT_EQ(Deadline::never().remaining_ms(), -1);
  EXPECT_EQ(Deadline::after_ms(UINT64_MAX).remaining_ns(), Deadline::kInfinite);
  EXPECT_EQ(Deadline::after_ms(UINT64_MAX / 2).remaining_ns(), Deadline::kInfinite)
      << "no overflow into the past";
  EXPECT_EQ(Deadline::after_ms(0).remaining_ns(), 0U);
}

// On a thread whose wait was interrupted every deadline has passed, but none long ago: who was
// interrupted was not stopped.
TEST(Deadline, PassesByAnInterruptionButNotLongAgo) {
  interrupt::set([](void*) { return 1; }, nullptr);
  interrupt::ask(0);
  for (const Deadline deadline : {Deadline::after_ms(60'000), Deadline::never()}) {
    EXPECT_TRUE(deadline.expired());
    EXPECT_EQ(deadline.remaining_ms(), 0);
    EXPECT_FALSE(deadline.expired_for_ms(100));
  }

  interrupt::set(nullptr, nullptr);
  EXPECT_FALSE(Deadline::after_ms(60'000).expired());
  EXPECT_EQ(Deadline::never().remaining_ms(), -1);
  EXPECT_TRUE(Deadline::after_ms(Deadline::kNow).expired_for_ms(100));
}

TEST(SpinPolicy, KnowsTheProcessorsOfABoundThread) {
  Processors seen;
  int processor = -1;
  std::thread([&] {
    processor = sched_getcpu();
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(static_cast<size_t>(processor), &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
    seen = usable_processors();
  }).join();
  EXPECT_EQ(seen, Processors().set(static_cast<size_t>(processor)));
}

TEST(SpinPolicy, SpinsLessWhenRanksShareAProcessor) {
  if (std::getenv("SYMM_SPIN") != nullptr) GTEST_SKIP() << "SYMM_SPIN overrides the policy";
  EXPECT_EQ(SpinPolicy::for_ranks(1, {1}).yields, 0U) << "nobody is waiting for the processor";
  EXPECT_GT(SpinPolicy::for_ranks(2, {1}).yields, 0U);
  EXPECT_LT(SpinPolicy::for_ranks(2, {1}).spins, SpinPolicy::for_ranks(1, {1}).spins);
}

TEST(WaitWord, ComparesAcrossTheWrapAndIsNoWaiterAfterATimeOut) {
  Waiting w;
  w.word = 2;
  EXPECT_EQ(w.wait(UINT32_MAX - 1), WaitEnd::reached) << "2 is 4 steps after the target";
  w.word = UINT32_MAX;
  EXPECT_EQ(w.wait(1, 5), WaitEnd::timed_out) << "the target is 2 steps ahead";
  EXPECT_EQ(w.waiter[0].load(), 0);
}

// Both sides sleep at once; if a wake-up were lost, a
// round would take a slice of 50 ms and the test minutes.
void ping_pong(Fencing fencing) {
  Waiting ping;
  Waiting pong;
  ping.fencing = pong.fencing = fencing;
  constexpr uint32_t kRounds = 5000;
  const std::jthread other([&] {
    for (uint32_t i = 1; i <= kRounds; ++i) {
      ASSERT_EQ(ping.wait(i), WaitEnd::reached);
      pong.set(i);
    }
  });

  const auto start = std::chrono::steady_clock::now();
  for (uint32_t i = 1; i <= kRounds; ++i) {
    ping.set(i);
    ASSERT_EQ(pong.wait(i), WaitEnd::reached);
  }

  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(WaitWord, NoWakeUpIsLost) { ping_pong(Fencing::symmetric); }

TEST(WaitWord, NoWakeUpIsLostWithAsymmetricFences) {
  if (!register_for_asymmetric_fences()) {
    GTEST_SKIP() << "no membarrier here, or ThreadSanitizer, which cannot see it";
  }
  ping_pong(Fencing::asymmetric);
}

TEST(WaitWord, YieldsBeforeItSleeps) {
  Waiting w;
  w.yields = 1;
  int sleeping = -1;  // when it yielded
  at_yield = [&] {
    sleeping = w.waiter[0].load();
    w.set(1);
  };
  EXPECT_EQ(w.wait(1), WaitEnd::reached) << "it did not yield, so nobody wrote";
  at_yield = nullptr;
  EXPECT_EQ(sleeping, 0);
}

TEST(WaitWord, SleepsWhereOthersWantItsProcessor) {
  Waiting w;
  std::atomic<bool> over{false};
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &mask);
  const std::jthread other([&] {
    EXPECT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
    while (!over) {
    }
  });

  const std::jthread waiter([&] {
    EXPECT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
    EXPECT_EQ(w.wait(1, 100, UINT32_MAX), WaitEnd::timed_out)
        << "who spins for minutes does not look at the clock";
    EXPECT_EQ(w.wait(1, 1, UINT32_MAX), WaitEnd::timed_out) << "nor does the next";
    over = true;
  });
}

TEST(WaitWord, SleepersBeyondTheByteStillSeeTheWord) {
  Waiting w;
  w.waiter[0] = UINT8_MAX;
  const std::jthread writer([&] {
    std::this_thread::sleep_for(milliseconds(20));
    w.word = 1;  // without any wake-up
  });
  EXPECT_EQ(w.wait(1), WaitEnd::reached);
  EXPECT_EQ(w.waiter[0].load(), UINT8_MAX);
}

TEST(WaitWord, EndsWhenRevoked) {
  for (const uint32_t spins : {0U, 1'000'000'000U}) {
    Waiting w;
    const std::jthread revoker([&] {
      std::this_thread::sleep_for(milliseconds(20));
      w.revocation.revoke({Status::peer_failed, 1, 77, "died"});
    });
    EXPECT_EQ(w.wait(1, Deadline::kInfinite, spins), WaitEnd::revoked);
  }
}

TEST(WaitWord, EndsWhenThePeerDeparts) {
  Waiting w;
  const std::jthread leaver([&] {
    std::this_thread::sleep_for(milliseconds(20));
    w.revocation.depart(0);  // somebody else
    std::this_thread::sleep_for(milliseconds(20));
    w.revocation.depart(1);
  });
  EXPECT_EQ(w.wait(1), WaitEnd::peer_departed);
}

TEST(WaitWord, WhatThePeerDidBeforeItLeftCounts) {
  Waiting w;
  w.revocation.depart(1);
  w.word = 1;
  EXPECT_EQ(w.wait(1), WaitEnd::reached);
  EXPECT_EQ(w.wait(2), WaitEnd::peer_departed);
}

// All orders in which news may come, tried on the code itself. Rank 0 aborts, and rank 3 dies,
// perhaps after it told some of the others, but not all, of a failure; each of the others sees the
// death by its own clock. Returns whether the survivors report one failure when no news is in
// flight.
bool all_come_to_say_the_same(
    uint64_t clocks, bool aborts, uint64_t told_by_the_dead, bool tells_all_it_should) {
  constexpr int kLiving = 3;

  struct News {
    Failure failure;
    int from;
    bool seen;
  };

  const auto at = [&](Status status, int rank, int bit) {
    return Failure{status, rank, 0, "", 0, 0, (clocks >> bit & 1) != 0 ? 10U : 20U};
  };
  std::set<std::vector<std::string>> known;  // by what each has heard, in its order
  const auto explore = [&](const auto& self,
                           const std::vector<std::pair<int, int>>& order) -> bool {
    Revocation ranks[kLiving] = {Revocation(4), Revocation(4), Revocation(4)};
    std::deque<News> queues[4][kLiving];  // from, to
    std::vector<std::string> heard(kLiving);
    if (aborts) queues[0][0].push_back({{Status::aborted, 0, 0, "", 0, 0, 15}, -1, false});
    for (int rank = 0; rank < kLiving; ++rank) {
      if ((told_by_the_dead >> rank & 1) != 0) {
        queues[3][rank].push_back({at(Status::timeout, 2, 3), 3, false});
      }
      queues[3][rank].push_back({at(Status::peer_failed, 3, rank), 3, true});
    }
    for (const auto& [from, to] : order) {
      const News news = queues[from][to].front();
      queues[from][to].pop_front();
      heard[static_cast<size_t>(to)] +=
          format("%d%d%d ", from, news.failure.rank, news.seen ? 1 : 0);
      const Revocation::Effect effect = ranks[to].revoke(news.failure, news.from, news.seen);
      const bool tells =
          news.from < 0 ? effect.counts || effect.tell : effect.tell && tells_all_it_should;
      for (int other = 0; other < kLiving && tells; ++other) {
        if (other != to) queues[to][other].push_back({ranks[to].failure(), to, false});
      }
    }
    if (!known.insert(heard).second) return true;
    bool at_rest = true;
    for (int from = 0; from < 4; ++from) {
      for (int to = 0; to < kLiving; ++to) {
        if (queues[from][to].empty()) continue;
        at_rest = false;
        auto next = order;
        next.emplace_back(from, to);
        if (!self(self, next)) return false;
      }
    }
    const auto same = [&](const Revocation& one) {
      return one.failure().status == ranks[0].failure().status &&
             one.failure().rank == ranks[0].failure().rank;
    };
    return !at_rest || std::all_of(std::begin(ranks), std::end(ranks), same);
  };
  return explore(explore, {});
}

TEST(Revocation, TellsALateRankThatOthersWaitedForIt) {
  const int64_t pids[] = {70, 71, 72};
  struct Row {
    const char* told;
    const char* read;  // by rank 1
  };
  const Row rows[] = {
      {"barrier: rank 1 (pid 71) did not come within 400 ms",
          "barrier: another rank waited in vain for rank 1 (pid 71, this rank), not there within "
          "400 "
          "ms"},
      {"rendezvous: rank 0 (pid 70), rank 1 (pid 71), rank 2 (pid 72) did not come before the "
       "deadline",
          "rendezvous: another rank waited in vain for rank 0 (pid 70), rank 1 (pid 71, this "
          "rank), "
          "rank 2 (pid 72), not there before the deadline"},
      {"barrier: rank 2 (pid 72) did not come within 400 ms",
          "barrier: rank 2 (pid 72) did not come within 400 ms"},
      {"rank 1 (pid 71) aborted: rank 0 did not come",
          "rank 1 (pid 71) aborted: rank 0 did not come"},
  };

  for (const auto& [told, read] : rows) {
    Revocation revocation(3, std::make_shared<Page>(1, 2, 1, "", pids));
    revocation.revoke({Status::timeout, 1, 71, told});
    EXPECT_EQ(revocation.failure().message, read);
    EXPECT_EQ(revocation.cause().message, told) << "others are told what was heard";
  }
}

TEST(Revocation, AllThatLiveComeToSayTheSame) {
  SYMM_NOT_UNDER_TSAN("one thread, and half a minute");
  SYMM_NOT_UNDER_ASAN("it is arithmetic");
  bool mutant = true;
  for (uint64_t clocks = 0; clocks < 16; ++clocks) {
    for (const uint64_t told : {0U, 1U, 2U, 6U}) {
      for (const bool aborts : {false, true}) {
        EXPECT_TRUE(all_come_to_say_the_same(clocks, aborts, told, true))
            << clocks << " " << told << " " << aborts;
        mutant = mutant && all_come_to_say_the_same(clocks, aborts, told, false);
      }
    }
  }

  EXPECT_FALSE(mutant) << "the model finds nothing";
}

// How often this thread has slept so far.
long sleeps_of_this_thread() {
  rusage used{};
  EXPECT_EQ(getrusage(RUSAGE_THREAD, &used), 0);
  return used.ru_nvcsw;
}

TEST(SleepWhile, DoesNotSleepWhereEitherWordDiffers) {
  const Word a{1};
  const Word b{2};
  const long before = sleeps_of_this_thread();

  sleep_while(a, 0, nullptr, 0, Deadline::never());
  sleep_while(a, 0, &b, 2, Deadline::never());
  sleep_while(a, 1, &b, 3, Deadline::never());

  EXPECT_EQ(sleeps_of_this_thread(), before);
}

TEST(SleepWhile, SleepsUntilTheDeadlineWhereBothWordsAreTheSame) {
  const Word a{1};
  const Word b{2};
  const long before = sleeps_of_this_thread();

  sleep_while(a, 1, nullptr, 0, Deadline::after_ms(5));
  sleep_while(a, 1, &b, 2, Deadline::after_ms(5));

  EXPECT_GE(sleeps_of_this_thread(), before + 2);
}

TEST(PollUntil, ReportsReadinessAndDeadline) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Fd reader(ends[0]);
  const Fd writer(ends[1]);
  pollfd waiting[1] = {{reader.get(), POLLIN, 0}};

  const Deadline deadline = Deadline::after_ms(10);
  EXPECT_FALSE(poll_until(waiting, deadline));
  EXPECT_TRUE(deadline.expired());

  ASSERT_EQ(write(writer.get(), "x", 1), 1);
  EXPECT_TRUE(poll_until(waiting, Deadline::after_ms(60'000)));
}

TEST(RetryUntil, AsksUntilTrueOrTheDeadline) {
  int asked = 0;
  EXPECT_TRUE(retry_until([&] { return ++asked == 4; }, Deadline::never()));
  EXPECT_EQ(asked, 4);

  const Deadline deadline = Deadline::after_ms(10);
  EXPECT_FALSE(retry_until([] { return false; }, deadline));
  EXPECT_TRUE(deadline.expired());
}
}  // namespace
}  // namespace symm
