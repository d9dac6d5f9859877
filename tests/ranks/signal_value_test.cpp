// Signals that carry values, words of blocks, and tests instead of waits.
#include "tests/support/group.hpp"

namespace support { namespace {
constexpr uint64_t kHigh = uint64_t{1} << 40;

TEST(SignalValue, IsAddedSetAndComparedInAllWays) {
  as_threads(2, [](int rank, const Group& group) {
    const Block block = allocate(group, 64);
    const int peer = 1 - rank;
    block.memory.signal_value(peer, 2, SYMM_SIGNAL_SET, kHigh);
    block.memory.signal_value(peer, 2, SYMM_SIGNAL_ADD, 2);
    group.barrier();
    const struct {
      symm_compare_values compare;
      bool below, same, above;  // whether the word compares so with a value that is greater, equal, less
    } rows[] = {{SYMM_COMPARE_EQ, false, true, false}, {SYMM_COMPARE_NE, true, false, true},
        {SYMM_COMPARE_LT, true, false, false}, {SYMM_COMPARE_LE, true, true, false}, {SYMM_COMPARE_GT, false, false, true},
        {SYMM_COMPARE_GE, false, true, true}};
    for (const auto& row : rows) {
      const auto holds = [&](uint64_t value) {
        uint64_t seen = 0;
        const symm_wait_options_t soon{sizeof soon, 5, nullptr};
        const symm_status_t status =
            symm_wait_signal_value(block.memory.get(), peer, 2, row.compare, value, &soon, &seen, nullptr);
        EXPECT_EQ(seen, status == SYMM_OK ? kHigh + 2 : 0);
        return status == SYMM_OK;
      };
      EXPECT_EQ(holds(kHigh + 3), row.below) << row.compare;
      EXPECT_EQ(holds(kHigh + 2), row.same) << row.compare;
      EXPECT_EQ(holds(2), row.above) << row.compare;
    }
    EXPECT_EQ(block.memory.test_signal_value(peer, 2), kHigh + 2);
    group.barrier();
  });
}

// More ranks than processors: they sleep. Values that differ in their upper halves only wake a sleeper too.
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

TEST(SignalValue, WordsOfTheBlockAreAwaitedWhoeverWritesThem) {
  as_threads(2, [](int rank, const Group& group) {
    const Block block = allocate(group, 64);
    if (rank == 0) {
      block.memory.wait_value32(4, SYMM_COMPARE_EQ, 7);
      group.barrier();
      block.memory.wait_value64(8, SYMM_COMPARE_GT, kHigh);
    } else {
      block.memory.write_value32(0, 4, 7);
      group.barrier();
      reinterpret_cast<std::atomic<uint64_t>*>(block.at<uint64_t>(0) + 1)->store(kHigh + 1);  // which wakes nobody
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
      expect_failure(SYMM_ERR_TIMEOUT, {"no signal from rank 1"}, [&] { block.memory.wait_signal(1, 3, 30); });
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
}}  // namespace support
