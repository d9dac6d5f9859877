// SPDX-License-Identifier: Apache-2.0
#include <atomic>

#include "tests/support/group.hpp"
#include "tests/support/options.hpp"

namespace support {
namespace {

void signal(const Block& block, int rank, int channel = 0) { block.memory.signal(rank, channel); }
symm_status_t wait_signal(const Block& block, int rank, int channel = 0, uint64_t timeout_ms = 20'000) {
  return symm_wait_signal(block.memory.get(), rank, channel, support::within(timeout_ms), nullptr);
}

TEST(Signal, CountsAndManyMayBeOutstanding) {
  as_threads(2, [](int rank, const Group& group) {
    const Block block = allocate(group, 64);
    if (rank == 0) {
      for (int i = 0; i < 1000; ++i) signal(block, 1, 5);
      group.barrier();
    } else {
      group.barrier();
      for (int i = 0; i < 1000; ++i) EXPECT_EQ(wait_signal(block, 0, 5), SYMM_OK);
      EXPECT_EQ(wait_signal(block, 0, 5, 20), SYMM_ERR_TIMEOUT) << "there was one too many";
      EXPECT_NE(std::string(symm_last_error()).find("rank 0"), std::string::npos) << symm_last_error();
    }
    group.barrier();
  });
}

TEST(Signal, ATimeOutTakesNothingAndHarmsNothing) {
  as_threads(2, [](int rank, const Group& group) {
    const Block block = allocate(group, 64);
    if (rank == 1) {
      EXPECT_EQ(wait_signal(block, 0, 0, 30), SYMM_ERR_TIMEOUT);
    }
    group.barrier();
    if (rank == 0) signal(block, 1);
    if (rank == 1) {
      EXPECT_EQ(wait_signal(block, 0), SYMM_OK);
    }
    group.barrier();
  });
}

TEST(Signal, ChannelsSourcesAndMemoriesAreApart) {
  as_threads(3, [](int rank, const Group& group) {
    const Block a = allocate(group, 64);
    const Block b = allocate(group, 64);
    signal(a, (rank + 1) % 3, 63);
    const int from = (rank + 2) % 3;
    const int other = (rank + 1) % 3;
    EXPECT_EQ(wait_signal(a, other, 63, 5), SYMM_ERR_TIMEOUT);
    EXPECT_EQ(wait_signal(a, from, 62, 5), SYMM_ERR_TIMEOUT);
    EXPECT_EQ(wait_signal(b, from, 63, 5), SYMM_ERR_TIMEOUT);
    EXPECT_EQ(wait_signal(a, from, 63), SYMM_OK);
    group.barrier();
  });
}

TEST(Signal, ARankMaySignalItself) {
  as_threads(2, [](int rank, const Group& group) {
    const Block block = allocate(group, 64);
    signal(block, rank);
    EXPECT_EQ(wait_signal(block, rank), SYMM_OK);
    group.barrier();
  });
}

TEST(Signal, OrdersTheDataBeforeIt) {
  as_processes(2, [](int rank, const Group& group) {
    const Block block = allocate(group, 1 << 16);
    auto* data = block.at<uint64_t>(1);
    for (uint64_t round = 1; round <= 2000; ++round) {
      if (rank == 0) {
        for (uint64_t i = 0; i < 64; ++i) data[i * 8] = round * 1000 + i;
        signal(block, 1);
        check(wait_signal(block, 1));
      } else {
        check(wait_signal(block, 0));
        for (uint64_t i = 0; i < 64; ++i) ASSERT_EQ(data[i * 8], round * 1000 + i);
        signal(block, 0);
      }
    }
  });
}

TEST(Signal, WakesASleeperWithoutLosingAny) {
  // More ranks than processors, no sleep without a wake-up: if one were lost, each would cost a slice of 50 ms.
  as_processes(6, [](int rank, const Group& group) {
    const Block block = allocate(group, 64);
    for (int round = 0; round < 500; ++round) {
      if (rank == round % 6) signal(block, (rank + 1) % 6);
      if (rank == (round + 1) % 6) check(wait_signal(block, round % 6));
    }
    group.barrier();
  });
}

TEST(Signal, SeveralThreadsWaitForDifferentSources) {
  as_threads(4, [](int rank, const Group& group) {
    const Block block = allocate(group, 64);
    std::atomic<int> taken{0};
    as_threads(5, [&](int from) {
      for (int i = 0; i < 50; ++i) {
        if (from < 4) {
          taken += wait_signal(block, from, 1) == SYMM_OK;
        } else {
          for (int to = 0; to < 4; ++to) signal(block, (to + rank) % 4, 1);
        }
      }
    });
    EXPECT_EQ(taken, 200);
    group.barrier();
  });
}

TEST(Signal, ThreadsShareTheSignalsOfOneSource) {
  as_threads(2, [](int rank, const Group& group) {
    const Block block = allocate(group, 64);
    std::atomic<int> taken{0};
    as_threads(3, [&](int) {
      for (int i = 0; i < 40; ++i) {
        if (rank == 1) taken += wait_signal(block, 0) == SYMM_OK;
        if (rank == 0) signal(block, 1);
      }
    });
    if (rank == 1) {
      EXPECT_EQ(taken, 120);
      EXPECT_EQ(wait_signal(block, 0, 0, 5), SYMM_ERR_TIMEOUT);
    }
    group.barrier();
  });
}

TEST(Signal, RejectsRanksAndChannelsOutOfRange) {
  as_threads(2, [](int, const Group& group) {
    const Block block = allocate(group, 64);
    symm_memory_t* memory = block.memory.get();
    EXPECT_EQ(symm_signal(memory, 2, 0, nullptr), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(symm_signal(memory, -1, 0, nullptr), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(symm_signal(memory, 0, 64, nullptr), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(symm_wait_signal(memory, 0, -1, support::within(1), nullptr), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(symm_wait_signal(memory, 5, 0, support::within(1), nullptr), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(symm_barrier(group.get(), nullptr, 0, 64, support::within(1), nullptr), SYMM_ERR_INVALID_ARGUMENT);
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
    const int32_t high[] = {2, 4, 3};  // overlaps in rank 2
    for (int round = 0; round < 200; ++round) {
      if (rank <= 2) group.barrier(low);
      if (rank >= 2) group.barrier(high);
      if (round % 10 == 0) group.barrier();
    }
    group.barrier();
  });
}

TEST(Barrier, NamingAllRanksIsTheWholeGroup) {
  as_threads(3, [](int rank, const Group& group) {
    const int32_t all[] = {1, 2, 0};
    for (int i = 0; i < 50; ++i) group.barrier(symm::Span(all, rank == 0 ? 0 : 3));
  });
}

TEST(Barrier, RejectsBadSubsets) {
  as_threads(3, [](int rank, const Group& group) {
    const int32_t twice[] = {rank, rank};
    const int32_t outside[] = {rank, 3};
    const int32_t without_me[] = {(rank + 1) % 3};
    EXPECT_EQ(symm_barrier(group.get(), twice, 2, 0, support::within(1), nullptr), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(symm_barrier(group.get(), outside, 2, 0, support::within(1), nullptr), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(symm_barrier(group.get(), without_me, 1, 0, support::within(1), nullptr), SYMM_ERR_INVALID_ARGUMENT);
    EXPECT_EQ(symm_barrier(group.get(), nullptr, 2, 0, support::within(1), nullptr), SYMM_ERR_INVALID_ARGUMENT);
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
      signal(in_pairs, 1 - pairs.rank());
      stripes.barrier();
      check(wait_signal(in_pairs, 1 - pairs.rank()));
      signal(in_stripes, 1 - stripes.rank());
      pairs.barrier();
      check(wait_signal(in_stripes, 1 - stripes.rank()));
    }
    EXPECT_EQ(wait_signal(in_pairs, 1 - pairs.rank(), 0, 5), SYMM_ERR_TIMEOUT);
    all.barrier();
  });
}

}  // namespace
}  // namespace support
