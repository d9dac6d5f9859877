// Calls that wait end when the callback of their thread says so, and lose nothing.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "symm/symm.h"
#include "tests/support/group.hpp"

namespace {
using namespace support;

// The callback of a thread, which ends the call at once.
struct Answers {
  int32_t asked = 0;
  static int32_t ask(void* answers) {
    ++static_cast<Answers*>(answers)->asked;
    return 1;
  }
};

// Makes a call, which would wait for 20 s, on a thread whose callback ends it.
Outcome interrupted(const std::function<void()>& call) {
  Answers answers;
  check(symm_thread_interrupt(Answers::ask, &answers));
  const auto began = std::chrono::steady_clock::now();
  Outcome outcome = outcome_of(call);
  const auto took = std::chrono::steady_clock::now() - began;
  check(symm_thread_interrupt(nullptr, nullptr));

  EXPECT_LT(took, std::chrono::seconds(5));
  EXPECT_EQ(answers.asked, 1);
  return outcome;
}

TEST(Interrupt, OfAWaitForASignalTakesNothing) {
  as_threads(2, [](int rank, const Group& group) {
    const Block block = allocate(group, 64);
    if (rank == 0) {
      const Outcome outcome = interrupted([&] { block.memory.wait_signal(1, 3); });
      expect_ended(outcome, SYMM_ERR_ABORTED, {"interrupted"});
      EXPECT_EQ(outcome.rank, -1);
    }

    group.barrier();  // the group works as before
    if (rank == 1) block.memory.signal(0, 3);
    if (rank == 0) block.memory.wait_signal(1, 3);
    group.barrier();
    uint64_t pending = 1;
    check(symm_test_signal(block.memory.get(), 1 - rank, 3, nullptr, &pending));
    EXPECT_EQ(pending, 0U);
  });
}

// All ranks report the rank that was interrupted, and shrink to a group of all.
TEST(Interrupt, OfABarrierEndsItOnAllRanks) {
  as_threads(2, [](int rank, const Group& group) {
    const auto barrier = [&] { group.barrier(); };
    const auto has_failed = [&] { return group.status().status != SYMM_OK; };
    // The other rank comes when it has failed.
    EXPECT_TRUE(rank == 0 || eventually(has_failed, 10'000));
    const Outcome outcome = rank == 0 ? interrupted(barrier) : outcome_of(barrier);
    expect_ended(outcome, SYMM_ERR_ABORTED, {"rank 0", "interrupted"});
    EXPECT_EQ(outcome.rank, 0);

    const Group again = group.shrink();
    EXPECT_EQ(again.size(), 2);
    expect_sum(again);
  });
}

TEST(Interrupt, OfACreationEndsIt) {
  const Bootstrap meeting;
  for (const Config& config : {meeting.processes(), meeting.threads()}) {
    const Outcome outcome = interrupted([&] { create(config, 0, 2); });
    expect_ended(outcome, SYMM_ERR_ABORTED, {"interrupted"});
  }
}

// The callback is asked as soon as a signal comes, and the call goes on if it says no.
TEST(Interrupt, IsAskedAtOnceWhenASignalComes) {
  struct sigaction ignore{};
  struct sigaction former{};
  ignore.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &ignore, &former), 0);
  std::atomic<int32_t> asked{0};

  as_threads(2, [&](int rank, const Group& group) {
    if (rank == 1) {
      // In this time it would be asked ten times by itself.
      EXPECT_TRUE(eventually([&] { return asked > 20; }, 2'000));
      return group.barrier();
    }

    const auto ask = [](void* count) -> int32_t {
      ++*static_cast<std::atomic<int32_t>*>(count);
      return 0;
    };
    check(symm_thread_interrupt(ask, &asked));
    std::atomic<bool> over{false};
    std::thread signals([&, self = pthread_self()] {
      while (!over) {
        pthread_kill(self, SIGUSR1);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });

    const Outcome outcome = outcome_of([&] { group.barrier(); });
    over = true;
    signals.join();
    EXPECT_EQ(outcome.status, SYMM_OK) << outcome.message;
    check(symm_thread_interrupt(nullptr, nullptr));
  });
  sigaction(SIGUSR1, &former, nullptr);
}

// A thread's callback is not asked by the calls of others.
TEST(Interrupt, IsOfOneThread) {
  Answers answers;
  check(symm_thread_interrupt(Answers::ask, &answers));
  std::thread([] {
    as_threads(2, [](int rank, const Group& group) {
      const Block block = allocate(group, 64);
      if (rank == 0) {
        symm_call_options_t options = SYMM_CALL_OPTIONS_INIT;
        options.timeout_ms = 300;
        expect_failed(symm_wait_signal(block.memory.get(), 1, 3, &options, nullptr),
            SYMM_ERR_TIMEOUT, {"rank 1"});
      }
      group.barrier();
    });
  }).join();
  EXPECT_EQ(answers.asked, 0);
  check(symm_thread_interrupt(nullptr, nullptr));
}
}  // namespace
