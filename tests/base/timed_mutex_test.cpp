#include "core/base/timed_mutex.hpp"

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/wait.hpp"
#include "tests/support/core.hpp"

namespace {
using namespace symm;

TEST(TimedMutex, TryTakeFailsAsLongAsTheMutexIsHeld) {
  TimedMutex mutex;
  EXPECT_TRUE(mutex.try_take());
  EXPECT_FALSE(mutex.try_take());
  mutex.give();
  EXPECT_TRUE(mutex.try_take());
}

TEST(TimedMutex, TakeFailsNoSoonerThanItsDeadline) {
  TimedMutex mutex;
  ASSERT_TRUE(mutex.try_take());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(mutex.take(Deadline::after_ms(30)));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(30));

  // The wait that failed left the mutex marked as waited for. Its holder gives it back all the
  // same.
  mutex.give();
  EXPECT_TRUE(mutex.try_take());
}

TEST(TimedMutex, AFreeMutexIsTakenEvenAfterTheDeadline) {
  TimedMutex mutex;
  EXPECT_TRUE(mutex.take(Deadline::after_ms(Deadline::kNow)));
  EXPECT_FALSE(mutex.take(Deadline::after_ms(Deadline::kNow)));
}

TEST(TimedMutex, GiveWakesAThreadThatSleeps) {
  TimedMutex mutex;
  ASSERT_TRUE(mutex.try_take());
  std::atomic<int> got{-1};
  std::thread waiter([&] { got = mutex.take(support::soon()) ? 1 : 0; });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(got, -1) << "the mutex was taken twice";

  mutex.give();
  waiter.join();
  EXPECT_EQ(got, 1);
}

// The counter is not atomic: increments would be lost, and ThreadSanitizer would complain, if two
// threads held the mutex at once. A wake-up that is lost would make a take() fail.
TEST(TimedMutex, OneOfManyThreadsHoldsItAtATime) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 5'000;
  TimedMutex mutex;
  int counter = 0;
  std::atomic<int> failed{0};

  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        if (!mutex.take(support::soon())) {
          ++failed;
          return;
        }
        ++counter;
        mutex.give();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }

  EXPECT_EQ(failed, 0);
  EXPECT_EQ(counter, kThreads * kRounds);
}

TEST(TimedLock, HoldsTheMutexForItsScope) {
  TimedMutex mutex;
  {
    const TimedLock lock(mutex, 0, "call");
    EXPECT_FALSE(mutex.try_take());
  }
  EXPECT_TRUE(mutex.try_take());
}

TEST(TimedLock, NamesTheCallAndHowLongItWaited) {
  TimedMutex mutex;
  ASSERT_TRUE(mutex.try_take());
  for (const auto& [timeout_ms, waited] :
      {std::pair(uint64_t{20}, "20"), std::pair(Deadline::kNow, "0")}) {
    std::optional<Failure> failure;
    try {
      const TimedLock lock(mutex, timeout_ms, "allreduce");
    } catch (const OutOfTurn& error) {
      failure = error.failure();
    }
    ASSERT_TRUE(failure) << waited;
    EXPECT_EQ(failure->status, Status::timeout);
    EXPECT_EQ(failure->message,
        std::string("allreduce: another thread of this rank was inside for ") + waited + " ms");
  }

  // A lock that was not had is not given back.
  EXPECT_FALSE(mutex.try_take());
}
}  // namespace
