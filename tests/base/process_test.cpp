#include "core/base/process.hpp"

#include <signal.h>
#include <stdlib.h>

#include <atomic>
#include <csignal>

#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "tests/support/test.hpp"

namespace symm {
namespace {
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

TEST(Environment, EmptyIsUnset) {
  setenv("SYMM_CREATE_TIMEOUT_MS", "", 1);
  EXPECT_EQ(milliseconds("SYMM_CREATE_TIMEOUT_MS"), 300'000U);
  setenv("SYMM_CREATE_TIMEOUT_MS", "7", 1);
  EXPECT_EQ(milliseconds("SYMM_CREATE_TIMEOUT_MS"), 7U);
  for (const char* bad : {"0", "-1", "7 ", "x", "99999999999999999999"}) {
    setenv("SYMM_CREATE_TIMEOUT_MS", bad, 1);
    EXPECT_THROW(milliseconds("SYMM_CREATE_TIMEOUT_MS"), Error) << bad;
  }
  unsetenv("SYMM_CREATE_TIMEOUT_MS");
  EXPECT_STREQ(environment("SYMM_BOOTSTRAP"), "env://");
}
}  // namespace
}  // namespace symm
