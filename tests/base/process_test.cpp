#include "core/base/process.hpp"
#include "tests/support/test.hpp"

namespace symm { namespace {
TEST(Process, FactsAreStable) {
  EXPECT_EQ(process::boot_id().size(), 36U);
  EXPECT_NE(process::random64(), process::random64());
}

TEST(Process, AThreadOfTheLibraryGetsNoSignalsButThoseOfItsFaults) {
  sigset_t mask;
  std::atomic<bool> done{false};
  process::start_thread("test", [&] {
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    done = true;
    done.notify_all();
  });
  done.wait(false);
  EXPECT_EQ(sigismember(&mask, SIGSEGV), 0);
  EXPECT_EQ(sigismember(&mask, SIGTERM), 1);
}
}}  // namespace symm
