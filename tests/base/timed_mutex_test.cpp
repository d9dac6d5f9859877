#include "core/base/timed_mutex.hpp"
#include "tests/support/test.hpp"

namespace symm {
namespace {
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
  std::thread other([&] {
    try {
      const TimedLock guard(turn, 20, "barrier");
      ADD_FAILURE() << "two at once";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::timeout);
      EXPECT_NE(std::string(error.what()).find("barrier"), std::string::npos);
    }
  });
  other.join();
}
}  // namespace
}  // namespace symm
