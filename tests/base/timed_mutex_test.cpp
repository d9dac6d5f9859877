#include "core/base/timed_mutex.hpp"
#include "tests/support/core.hpp"

namespace symm { namespace {
TEST(Turn, ExcludesAndHandsOn) {
  TimedMutex turn;
  int count = 0;  // not atomic on purpose
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        const TimedLock guard(turn, 20'000, "test");
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 20'000);
}

TEST(Turn, GivesUpAtTheDeadline) {
  TimedMutex turn;
  const TimedLock holder(turn, 1000, "holder");
  const auto enter = [&] { const TimedLock guard(turn, 20, "barrier"); };
  std::thread([&] { support::expect_failure(Status::timeout, {"barrier"}, enter); }).join();
}
}}  // namespace symm
