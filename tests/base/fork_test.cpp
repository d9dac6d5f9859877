#include "core/base/process.hpp"
#include "tests/support/test.hpp"

namespace symm { namespace {
std::atomic<int> handled{0};

TEST(Process, AForkIsCountedInTheChildOnly) {
  process::at_fork_in_child([]() noexcept { ++handled; });
  const uint32_t before = process::fork_generation();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(process::fork_generation() == before + 1 && handled == 1 ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(process::fork_generation(), before);
  EXPECT_EQ(handled, 0);
}

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
