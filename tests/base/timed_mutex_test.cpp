// The lock that threads of one rank take for a collective or a barrier.
#include "core/base/timed_mutex.hpp"

#include <thread>

#include "core/base/error.hpp"
#include "core/base/wait.hpp"
#include "tests/support/core.hpp"

namespace symm {
namespace {
TEST(TimedMutex, ExcludesAndHandsOn) {
  TimedMutex mutex;
  int count = 0;  // not atomic on purpose
  support::as_threads(4, [&](int) {
    for (int i = 0; i < 500; ++i) {
      const TimedLock lock(mutex, 20'000, "count");
      const int before = count;
      std::this_thread::yield();  // to a thread that would count from the same number
      count = before + 1;
    }
  });
  EXPECT_EQ(count, 2000);
}

TEST(TimedMutex, IsGivenUpAtTheDeadlineWhichNamesTheCall) {
  TimedMutex mutex;
  const auto barrier_within = [&](uint64_t timeout_ms) {
    return [&mutex, timeout_ms] { const TimedLock lock(mutex, timeout_ms, "barrier"); };
  };
  {
    const TimedLock holder(mutex, 1000, "holder");
    support::expect_failure(Status::timeout,
        {"barrier: another thread of this rank was inside for 20 ms"}, barrier_within(20));
    support::expect_failure(Status::timeout, {"inside for 0 ms"}, barrier_within(Deadline::kNow));
  }

  // The threads that gave up have left no mark: the next one is not kept out.
  EXPECT_EQ(support::failure_of(barrier_within(0)).status, Status::ok);
}
}  // namespace
}  // namespace symm
