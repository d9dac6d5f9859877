#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <thread>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/support/group.hpp"

namespace support {
namespace {
void expect_no_signal(const Block& block, int rank) {
  expect_failure(SYMM_ERR_TIMEOUT, {"no signal"}, [&] { block.memory.wait_signal(rank, 0, 5); });
}

TEST(Signal, OrdersTheDataBeforeIt) {
  as_processes(2, [](int rank, const Group& group) {
    const Block block = allocate(group, 1 << 16);
    auto* data = block.at<uint64_t>(1);
    for (uint64_t round = 1; round <= 2000; ++round) {
      if (rank == 0) {
        for (uint64_t i = 0; i < 64; ++i) {
          data[i * 8] = round * 1000 + i;
        }
        block.memory.signal(1);
        block.memory.wait_signal(1);
      } else {
        block.memory.wait_signal(0);
        for (uint64_t i = 0; i < 64; ++i) {
          ASSERT_EQ(data[i * 8], round * 1000 + i);
        }
        block.memory.signal(0);
      }
    }
  });
}

TEST(Signal, WakesASleeperWithoutLosingAny) {
  // More ranks than processors, no sleep without a wake-up:
  // if one were lost, each would cost a slice of 50 ms.
  as_processes(6, [](int rank, const Group& group) {
    const Block block = allocate(group, 64);
    for (int round = 0; round < 500; ++round) {
      if (rank == round % 6) block.memory.signal((rank + 1) % 6);
      if (rank == (round + 1) % 6) block.memory.wait_signal(round % 6);
    }
    group.barrier();
  });
}

TEST(Signal, AWaitForNoneLastsItsTimeOutAndHarmsNothing) {
  as_processes(2, [](int rank, const Group& group) {
    const Block block = allocate(group, 64);
    if (rank == 1) {
      const int64_t start = now_ns();
      const Outcome outcome = expect_failure(
          SYMM_ERR_TIMEOUT, {"no signal", "rank 0"}, [&] { block.memory.wait_signal(0, 4, 50); });
      EXPECT_GE(now_ns() - start, 50'000'000);
      EXPECT_EQ(outcome.rank, 0);
      EXPECT_EQ(group.status().status, SYMM_OK);
    }

    group.barrier();
    expect_no_signal(block, 1 - rank);  // a barrier is not a signal
    expect_no_signal(block, rank);
    group.barrier();
  });
}

TEST(Signal, ThreadsShareTheSignalsOfOneSource) {
  as_threads(2, [](int rank, const Group& group) {
    const Block block = allocate(group, 64);
    as_threads(3, [&](int) {
      for (int i = 0; i < 40; ++i) {
        if (rank == 1) block.memory.wait_signal(0);
        if (rank == 0) block.memory.signal(1);
      }
    });
    if (rank == 1) expect_no_signal(block, 0);
    group.barrier();
  });
}

TEST(Barrier, SeparatesPhases) {
  as_processes(4, [](int, const Group& group) {
    const Block block = allocate(group, 64);
    auto* counter = block.at<std::atomic<int>>(0);
    for (int round = 1; round <= 500; ++round) {
      counter->fetch_add(1);
      group.barrier({}, round % 64);
      ASSERT_EQ(counter->load(), 4 * round);
      group.barrier({}, (round + 1) % 64);
    }
  });
}

TEST(Barrier, OfSubsetsIndependentlyOfTheWhole) {
  as_threads(5, [](int rank, const Group& group) {
    const int32_t low[] = {2, 0, 1};
    const int32_t turned[] = {0, 1, 2};  // the set of `low`
    const int32_t high[] = {2, 4, 3};    // overlaps in rank 2
    for (int round = 0; round < 200; ++round) {
      if (rank <= 2) group.barrier(rank == 1 ? turned : low);
      if (rank >= 2) group.barrier(high);
      if (round % 10 == 0) group.barrier();
    }
    group.barrier();
  });
}

TEST(Barrier, OfOverlappingGroupsNeverCollide) {
  as_processes(4, [](int rank, const Group& all) {
    const Group pairs = all.split(rank / 2, rank);
    const Group stripes = all.split(rank % 2, rank);
    const Block in_pairs = allocate(pairs, 64);
    const Block in_stripes = allocate(stripes, 64);

    for (int round = 0; round < 300; ++round) {
      in_pairs.memory.signal(1 - pairs.rank());
      stripes.barrier();
      in_pairs.memory.wait_signal(1 - pairs.rank());
      in_stripes.memory.signal(1 - stripes.rank());
      pairs.barrier();
      in_stripes.memory.wait_signal(1 - stripes.rank());
    }

    expect_no_signal(in_pairs, 1 - pairs.rank());
    all.barrier();
  });
}

// A call that looks once takes nothing, counts as nothing, and leaves the group as it is.
TEST(Now, BarriersAreLookedFor) {
  as_threads(3, [](int rank, const Group& group) {
    const Block block = allocate(group, 64);
    const int32_t pair[] = {0, 1};
    const auto look = [&](bool some) {
      return symm_barrier(group.get(), some ? pair : nullptr, some ? 2 : 0, 3,
          support::within(SYMM_TIMEOUT_NOW), nullptr);
    };

    for (const bool some : {false, true}) {
      for (int i = 0; i < 3 && rank == 0; ++i) {
        expect_failed(look(some), SYMM_ERR_TIMEOUT, {"is not here"});
      }
      group.barrier();
      if (rank == 0) {
        while (look(some) == SYMM_ERR_TIMEOUT) {
          usleep(1000);
        }
      } else if (!some || rank == 1) {
        group.barrier(some ? symm::Span<const int32_t>(pair) : symm::Span<const int32_t>(), 3);
      }
    }

    EXPECT_EQ(group.status().status, SYMM_OK);
    // A call that needs the other ranks to act cannot be polled.
    const auto now = forced(SYMM_ALGORITHM_AUTO, SYMM_TIMEOUT_NOW);
    float value = 1;
    EXPECT_EQ(
        symm_allreduce(group.get(), &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, now, nullptr),
        SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(symm_group_finalize(group.get(), support::within(SYMM_TIMEOUT_NOW)),
        SYMM_ERR_INVALID_ARGUMENT);
    symm_rendezvous_options_t meeting = SYMM_RENDEZVOUS_OPTIONS_INIT;
    meeting.timeout_ms = SYMM_TIMEOUT_NOW;
    EXPECT_EQ(outcome_of([&] { group.rendezvous(group.allocate(64), meeting); }).status,
        SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(group.rendezvous(block.buffer, meeting).get(), block.memory.get());
    group.barrier();
  });
}

// Two sets that share ranks 0 and 1, whose threads come
// to them in other orders: one of them would end early.
TEST(Barrier, SetsInAnotherOrderAreAMismatch) {
  std::barrier together(4);  // nobody is in the group's creation still
  as_threads(4, [&](int rank, const Group& group) {
    together.arrive_and_wait();
    const int32_t a[] = {0, 1, 2};
    const int32_t b[] = {1, 3, 0};
    const bool first_a = rank == 0 || rank == 2;
    const auto refused = [&](bool of_a) {
      const auto barrier = [&] { group.barrier(of_a ? symm::Span(a) : symm::Span(b), 5); };
      expect_failure(SYMM_ERR_MISMATCH, {"different sets on channel 5"}, barrier);
    };
    refused(first_a);
    if (rank < 2) refused(!first_a);
  });
}

TEST(Stats, WaitsOfAllKindsAreCounted) {
  as_threads(1, [](int, const Group& group) {
    const Block block = allocate(group, 64);

    block.memory.wait_value32(0, SYMM_COMPARE_EQ, 0);
    block.memory.wait_value64(8, SYMM_COMPARE_LT, 1);
    block.memory.wait_signal_value(0, 0, SYMM_COMPARE_EQ, 0);
    const symm_signal_wait_t one{sizeof one, 0, 0, SYMM_COMPARE_EQ, 0};
    block.memory.wait_any(symm::Span(&one, 1));
    EXPECT_EQ(group.stats().waits, 4U);
    EXPECT_EQ(group.stats().failures, 0U);

    EXPECT_NE(
        outcome_of([&] { block.memory.wait_value32(1, SYMM_COMPARE_EQ, 0); }).status, SYMM_OK);
    EXPECT_NE(
        outcome_of([&] { block.memory.wait_value32(0, SYMM_COMPARE_EQ, 1, 1); }).status, SYMM_OK);
    EXPECT_NE(
        outcome_of([&] { block.memory.wait_signal_value(0, 0, SYMM_COMPARE_EQ, 1, 1); }).status,
        SYMM_OK);

    EXPECT_EQ(group.stats().waits, 4U);
    EXPECT_EQ(group.stats().failures, 3U);
  });
}

// A thread that does not get its turn has left the others out of step, so all learn of it.
TEST(Barrier, OutOfTurnRevokesTheGroup) {
  as_threads(2, [](int rank, const Group& group) {
    group.barrier();
    if (rank == 0) {
      const std::jthread inside(
          [&] { EXPECT_NE(outcome_of([&] { group.barrier({}, 5, 20'000); }).status, SYMM_OK); });
      usleep(100'000);
      EXPECT_EQ(symm_barrier(group.get(), nullptr, 0, 5, support::within(200), nullptr),
          SYMM_ERR_TIMEOUT);
      EXPECT_EQ(group.status().status, SYMM_ERR_TIMEOUT) << group.status().message;
    } else {
      while (group.status().status == SYMM_OK) {
        usleep(1000);
      }
      EXPECT_EQ(group.status().status, SYMM_ERR_TIMEOUT);
    }
  });
}

// ---- signals that carry values, and words of blocks

// More ranks than processors: they sleep. Values that
// differ in their upper halves only wake a sleeper too.
TEST(SignalValue, WakesASleeperWithoutLosingAny) {
  as_processes(4, [](int rank, const Group& group) {
    const Block block = allocate(group, 64);
    for (uint64_t round = 1; round <= 300; ++round) {
      block.memory.signal_value((rank + 1) % 4, 1, SYMM_SIGNAL_SET, round << 32);
      block.memory.wait_signal_value((rank + 3) % 4, 1, SYMM_COMPARE_GE, round << 32);
      block.memory.write_value64((rank + 1) % 4, 8, round << 32);
      block.memory.wait_value64(8, SYMM_COMPARE_GE, round << 32);
    }
    group.barrier();
  });
}

// One thread that waits for long keeps no other from taking what comes for it.
TEST(Signal, ALongWaitLocksNobodyOut) {
  as_threads(2, [](int rank, const Group& group) {
    const Block block = allocate(group, 64);
    if (rank == 0) {
      std::thread other([&] { block.memory.wait_signal(1, 3); });
      expect_failure(
          SYMM_ERR_TIMEOUT, {"no signal from rank 1"}, [&] { block.memory.wait_signal(1, 3, 30); });
      group.barrier();
      other.join();
      EXPECT_EQ(block.memory.test_signal(1, 3), 0U);
    } else {
      group.barrier();
      block.memory.signal(0, 3);
    }

    group.barrier();
  });
}
}  // namespace
}  // namespace support
