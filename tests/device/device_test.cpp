// The logic of symm/device.cuh with ranks and blocks as threads of the host: counting, order,
// which rank waits for which, deadlines, and the stop word. The instructions of a GPU are not
// tested here; every_call.cu compiles them.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <climits>
#include <cstddef>
#include <deque>
#include <functional>
#include <iterator>
#include <vector>

#include "tests/support/process.hpp"
#include <symm/device.cuh>

namespace {
using namespace symm::device;

constexpr int kChannels = 4;
constexpr int kMaxRanks = 4;

// The memory of `size` ranks: their blocks, signal pads, and counts of signals taken.
class World {
 public:
  explicit World(int size, unsigned long long timeout_ns = 20'000'000'000ULL)
      : size_(size), timeout_ns_(timeout_ns) {
    std::copy(std::begin(blocks_), std::end(blocks_), block_table_);
    std::copy(std::begin(pads_), std::end(pads_), pad_table_);
  }

  Memory memory(int rank) {
    return {sizeof(Memory), kLayout, rank, size_, kChannels, block_table_, pad_table_, taken_[rank],
        timeout_ns_, &stop};
  }

  unsigned long long& put(int owner, int channel, int source) {
    return pads_[owner][channel * size_ + source];
  }

  unsigned long long& taken(int owner, int channel, int source) {
    return taken_[owner][channel * size_ + source];
  }

  unsigned stop = 0;

 private:
  int size_;
  unsigned long long timeout_ns_;
  unsigned blocks_[kMaxRanks][1024] = {};
  unsigned long long pads_[kMaxRanks][kChannels * kMaxRanks] = {};
  unsigned long long taken_[kMaxRanks][kChannels * kMaxRanks] = {};
  void* block_table_[kMaxRanks] = {};
  unsigned long long* pad_table_[kMaxRanks] = {};
};

// A block whose threads are threads of the host.
struct HostBlock {
  struct Shared {
    explicit Shared(int threads) : together(threads) {}

    std::barrier<> together;
    std::atomic<int> code{0};
  };

  Shared& shared;
  int own_number;
  int of;
  int in_grid;

  unsigned thread() const { return static_cast<unsigned>(own_number); }

  unsigned threads() const { return static_cast<unsigned>(of); }

  unsigned blocks() const { return static_cast<unsigned>(in_grid); }

  void sync() const { shared.together.arrive_and_wait(); }

  bool any(bool mine) const { return !agree({mine ? 1 : 0}); }

  Outcome agree(Outcome mine) const {
    if (!mine) shared.code = mine.code;
    sync();
    const Outcome agreed = {shared.code};
    sync();
    if (own_number == 0) shared.code = 0;
    sync();
    return agreed;
  }
};

TEST(Device, PointersAndWords) {
  World world(3);
  const Memory memory = world.memory(1);
  EXPECT_EQ(pointer<char>(memory, 2, 8), static_cast<char*>(memory.blocks[2]) + 8);
  EXPECT_EQ(signal_word(memory, 0, 2, 1), &world.put(0, 2, 1));
  EXPECT_EQ(taken_word(memory, 3, 2), &world.taken(1, 3, 2));
}

TEST(Device, SignalsAreCounted) {
  World world(2);
  const Memory a = world.memory(0);
  const Memory b = world.memory(1);

  for (int i = 0; i < 3; ++i) {
    signal(a, 1, 2);
  }
  EXPECT_EQ(test_signal(b, 0, 2), 3U);
  EXPECT_TRUE(await_signal(b, 0, 2, 3));
  EXPECT_EQ(test_signal(b, 0, 2), 3U) << "awaiting took one";
  EXPECT_TRUE(wait_signal(b, 0, 2));

  take_signals(b, 0, 2, 2);
  EXPECT_EQ(test_signal(b, 0, 2), 0U);
  EXPECT_EQ(world.taken(1, 2, 0), 3U);
  EXPECT_EQ(world.taken(0, 2, 1), 0U);
}

TEST(Device, WordsHave64Bits) {
  World world(2);
  world.put(1, 0, 0) = world.taken(1, 0, 0) = UINT_MAX - 1;
  const Memory a = world.memory(0);
  const Memory b = world.memory(1);
  for (int i = 0; i < 4; ++i) {
    signal(a, 1, 0);
    EXPECT_TRUE(wait_signal(b, 0, 0));
  }
  EXPECT_EQ(world.put(1, 0, 0), UINT_MAX + 3ULL);
  EXPECT_EQ(world.taken(1, 0, 0), UINT_MAX + 3ULL);
}

TEST(Device, ValuesAreAddedSetAndCompared) {
  constexpr unsigned long long kHigh = 1ULL << 40;
  World world(2, 2'000'000);
  const Memory a = world.memory(0);
  const Memory b = world.memory(1);
  signal_value(a, 1, 0, SignalOp::set, kHigh);
  signal_value(a, 1, 0, SignalOp::add, 2);
  EXPECT_EQ(test_signal_value(b, 0, 0), kHigh + 2);

  const struct {
    Compare compare;
    // Whether the comparison holds of a word that is below, equal to, or above the value.
    bool below;
    bool same;
    bool above;
  } rows[] = {{Compare::eq, false, true, false}, {Compare::ne, true, false, true},
      {Compare::lt, true, false, false}, {Compare::le, true, true, false},
      {Compare::gt, false, false, true}, {Compare::ge, false, true, true}};

  for (const auto& row : rows) {
    const int number = static_cast<int>(row.compare);
    EXPECT_EQ(static_cast<bool>(wait_signal_value(b, 0, 0, row.compare, kHigh + 3)), row.below)
        << number;
    EXPECT_EQ(static_cast<bool>(wait_signal_value(b, 0, 0, row.compare, kHigh + 2)), row.same)
        << number;
    EXPECT_EQ(static_cast<bool>(wait_signal_value(b, 0, 0, row.compare, 2)), row.above) << number;
  }
  EXPECT_EQ(world.taken(1, 0, 0), 0U);
}

template <class Word>
void expect_changes(const Memory& memory, unsigned long long offset) {
  const auto change = [&](AtomicOp op, Word value, Word compare = 0) {
    return change_value(memory, 1, offset, op, value, compare);
  };
  EXPECT_EQ(change(AtomicOp::swap, 12), 0U);
  EXPECT_EQ(change(AtomicOp::add, 3), 12U);
  EXPECT_EQ(change(AtomicOp::bit_and, 13), 15U);
  EXPECT_EQ(change(AtomicOp::bit_or, 2), 13U);
  EXPECT_EQ(change(AtomicOp::bit_xor, 6), 15U);
  EXPECT_EQ(change(AtomicOp::compare_swap, 5, 8), 9U);
  EXPECT_EQ(change(AtomicOp::compare_swap, 5, 9), 9U);
  EXPECT_EQ(change(AtomicOp::fetch, 0), 5U);
}

TEST(Device, WordsAreChangedInOneStep) {
  World world(2, 2'000'000);
  expect_changes<unsigned>(world.memory(0), 4);
  expect_changes<unsigned long long>(world.memory(0), 8);

  constexpr int kEach = 20'000;
  std::vector<std::atomic<int>> fetched(3 * kEach);
  support::as_threads(3, [&](int thread) {
    for (int i = 0; i < kEach; ++i) {
      ++fetched[change_value(world.memory(thread % 2), 0, 16, AtomicOp::add, 1ULL)];
    }
  });
  EXPECT_TRUE(std::all_of(fetched.begin(), fetched.end(), [](int times) { return times == 1; }));

  // A view of another layout is not touched.
  Memory other = world.memory(0);
  ++other.layout;
  EXPECT_EQ(change_value(other, 0, 16, AtomicOp::swap, 7ULL), 0U);
  EXPECT_EQ(change_value(world.memory(0), 0, 16, AtomicOp::fetch, 0ULL), 3U * kEach);
}

TEST(Device, OfSeveralSignalsAnyOrAll) {
  World world(3, 2'000'000);
  const Memory memory = world.memory(0);
  const SignalWait waits[] = {{1, 0, Compare::ge, 2}, {2, 3, Compare::eq, 7}};
  int index = -1;
  EXPECT_EQ(wait_signals(memory, waits, 2, true, &index).trouble(), Trouble::timeout);
  EXPECT_EQ(index, -1);

  signal_value(world.memory(2), 0, 3, SignalOp::set, 7);
  EXPECT_TRUE(wait_signals(memory, waits, 2, true, &index));
  EXPECT_EQ(index, 1);

  const Outcome late = wait_signals(memory, waits, 2, false);
  EXPECT_TRUE(late.trouble() == Trouble::timeout && late.peer() == 1) << late.code;

  signal_value(world.memory(1), 0, 0, SignalOp::add, 2);
  EXPECT_TRUE(wait_signals(memory, waits, 2, false));
  EXPECT_EQ(world.taken(0, 0, 1), 0U);
}

// Threads that take signals of one channel at the same time each get another signal.
TEST(Device, NoSignalIsTakenTwice) {
  constexpr int kEach = 2000;
  World world(2, 200'000'000);
  std::atomic<int> failed{0};
  support::as_threads(4, [&](int thread) {
    for (int i = 0; i < kEach; ++i) {
      if (thread == 0) {
        for (int n = 0; n < 3; ++n) {
          signal(world.memory(0), 1, 0);
        }
      } else if (!wait_signal(world.memory(1), 0, 0)) {
        ++failed;
      }
    }
  });

  EXPECT_EQ(failed, 0);
  EXPECT_EQ(world.taken(1, 0, 0), 3U * kEach);
  EXPECT_FALSE(wait_signal(world.memory(1), 0, 0));
}

// Several streams of a rank are at barriers of one channel.
TEST(Device, BarriersAtTheSameTimeCountOnceEach) {
  constexpr int kRounds = 1000;
  World world(2);
  support::as_threads(4, [&](int thread) {
    for (int i = 0; i < kRounds; ++i) {
      ASSERT_TRUE(barrier_thread(world.memory(thread % 2), 1));
    }
  });
  for (const int rank : {0, 1}) {
    EXPECT_EQ(world.put(rank, 1, 1 - rank), 2U * kRounds);
    EXPECT_EQ(world.taken(rank, 1, 1 - rank), 2U * kRounds);
  }
}

TEST(Device, AnotherLayoutIsRefused) {
  World world(2);
  Memory other = world.memory(0);
  other.layout = kLayout + 1;
  signal(other, 1, 0);

  EXPECT_EQ(world.put(1, 0, 0), 0U);
  world.put(0, 0, 1) = 1;
  for (const Outcome outcome :
      {wait_signal(other, 1, 0), await_signal(other, 1, 0), barrier_thread(other, 0)}) {
    EXPECT_EQ(outcome.trouble(), Trouble::layout);
    EXPECT_EQ(outcome.peer(), 1);
  }

  EXPECT_EQ(world.taken(0, 0, 1), 0U);
}

// Data that were stored before a signal are there after the wait, on every rank.
TEST(Device, SignalsOrderData) {
  constexpr int kRanks = 4;
  World world(kRanks);
  support::as_threads(kRanks, [&](int rank) {
    const Memory memory = world.memory(rank);
    const int next = (rank + 1) % kRanks;
    const int last = (rank + kRanks - 1) % kRanks;
    unsigned* const mine = pointer<unsigned>(memory, rank);

    for (unsigned i = 0; i < 1000; ++i) {
      pointer<unsigned>(memory, next)[i % 2] = i;
      signal(memory, next, 0);
      ASSERT_TRUE(wait_signal(memory, last, 0));
      ASSERT_EQ(mine[i % 2], i);
      // The word may be written again.
      signal(memory, last, 1);
      ASSERT_TRUE(wait_signal(memory, next, 1));
    }
  });
}

TEST(Device, AWaitEndsAtItsDeadlineAndTakesNothing) {
  World world(3, 2'000'000);
  const Memory memory = world.memory(0);
  const Outcome outcome = wait_signal(memory, 2, 1);
  EXPECT_FALSE(outcome);
  EXPECT_EQ(outcome.trouble(), Trouble::timeout);
  EXPECT_EQ(outcome.peer(), 2);
  EXPECT_EQ(world.taken(0, 1, 2), 0U);

  signal(world.memory(2), 0, 1);
  EXPECT_TRUE(wait_signal(memory, 2, 1)) << "the channel is as it was";

  signal(world.memory(2), 0, 1);
  EXPECT_TRUE(await_signal(memory, 2, 1));
  EXPECT_FALSE(await_signal(memory, 2, 1, 2)) << "only one is there";
}

TEST(Device, AWaitEndsWhenItIsStopped) {
  World world(2, ~0ULL);
  support::as_threads(2, [&](int rank) {
    if (rank == 1) return store_relaxed(&world.stop, 1);
    const Outcome outcome = await_signal(world.memory(0), 1, 0);
    EXPECT_EQ(outcome.trouble(), Trouble::stopped);
    EXPECT_EQ(outcome.peer(), 1);
  });
}

// `threads` threads meet again and again, and none is through before all have come.
void expect_to_keep_step(
    int threads, int rounds, const std::function<Outcome(int thread)>& barrier) {
  std::vector<std::atomic<int>> at(static_cast<size_t>(threads));
  support::as_threads(threads, [&](int thread) {
    for (int round = 1; round <= rounds; ++round) {
      at[static_cast<size_t>(thread)].store(round, std::memory_order_relaxed);
      ASSERT_TRUE(barrier(thread));
      for (const auto& other : at) {
        const int seen = other.load(std::memory_order_relaxed);
        ASSERT_TRUE(seen == round || seen == round + 1) << seen << " in round " << round;
      }
    }
  });
}

TEST(Device, BarriersOfThreadsKeepStep) {
  constexpr int kRanks = 4;
  World world(kRanks);
  expect_to_keep_step(kRanks, 500, [&](int rank) { return barrier_thread(world.memory(rank), 3); });
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(world.taken(rank, 3, (rank + 1) % kRanks), 500U);
  }
}

TEST(Device, BarriersOfSomeRanksLeaveTheOthersAlone) {
  World world(4);
  support::as_threads(2,
      [&](int i) { EXPECT_TRUE(barrier_thread(world.memory(2 * i + 1), 0, 1U << 1 | 1U << 3)); });
  EXPECT_EQ(world.put(1, 0, 3), 1U);
  EXPECT_EQ(world.put(3, 0, 1), 1U);
  for (int other : {0, 2}) {
    for (int source = 0; source < 4; ++source) {
      EXPECT_EQ(world.put(other, 0, source), 0U);
    }
  }
}

TEST(Device, ABarrierSaysWhoIsMissing) {
  World world(4, 50'000'000);
  // Rank 3 does not come.
  support::as_threads(3, [&](int rank) {
    const Outcome outcome = barrier_thread(world.memory(rank), 0);
    EXPECT_EQ(outcome.trouble(), Trouble::timeout);
    EXPECT_EQ(outcome.peer(), 3);
  });
}

// Three ranks have blocks of one, two and five threads.
TEST(Device, BarriersOfBlocksKeepStep) {
  constexpr int kRanks = 3;
  for (const int threads : {1, 2, 5}) {
    World world(kRanks);
    std::deque<HostBlock::Shared> shared;
    for (int rank = 0; rank < kRanks; ++rank) {
      shared.emplace_back(threads);
    }

    support::as_threads(kRanks * threads, [&](int i) {
      const int rank = i / threads;
      const int thread = i % threads;
      const Memory memory = world.memory(rank);
      const HostBlock block{shared[static_cast<size_t>(rank)], thread, threads, 1};

      for (unsigned round = 1; round <= 20; ++round) {
        // Every thread stores to the next rank.
        pointer<unsigned>(memory, (rank + 1) % kRanks)[thread] = round;
        ASSERT_TRUE(barrier_of(memory, 1, kEverybody, block));
        ASSERT_EQ(pointer<unsigned>(memory, rank)[(thread + 1) % threads], round)
            << "what another thread of another rank stored";
        ASSERT_TRUE(barrier_of(memory, 2, kEverybody, block));
      }
    });
  }
}

TEST(Device, AFailedBarrierIsFailedForAllThreadsOfABlock) {
  World world(3, 20'000'000);
  HostBlock::Shared shared(4);
  support::as_threads(4, [&](int thread) {
    const Outcome outcome =
        barrier_of(world.memory(0), 0, kEverybody, HostBlock{shared, thread, 4, 1});
    EXPECT_EQ(outcome.trouble(), Trouble::timeout);
    EXPECT_TRUE(outcome.peer() == 1 || outcome.peer() == 2);
  });
}

// Two ranks have grids of different sizes, whose blocks have two threads.
TEST(Device, BarriersOfGridsKeepStep) {
  constexpr int kThreads = 2;
  const int blocks[] = {3, 1};
  World world(2);
  Grid grids[2] = {};
  std::deque<HostBlock::Shared> shared;

  for (int i = 0; i < blocks[0] + blocks[1]; ++i) {
    shared.emplace_back(kThreads);
  }
  expect_to_keep_step(8, 20, [&](int i) {
    const int number = i / kThreads;
    const int rank = number < blocks[0] ? 0 : 1;
    const HostBlock block{
        shared[static_cast<size_t>(number)], i % kThreads, kThreads, blocks[rank]};
    return barrier_of_grid(world.memory(rank), 0, &grids[rank], kEverybody, block);
  });

  for (const Grid& grid : grids) {
    EXPECT_EQ(grid.arrived, 0U);
    EXPECT_EQ(grid.round, 20U);
  }
}

// A block of the rank's own grid never comes, or another rank never comes.
TEST(Device, AGridThatIsNotCompleteLeaves) {
  World world(2, 20'000'000);
  for (const int blocks : {3, 2}) {
    Grid grid{};
    support::as_threads(2, [&](int) {
      HostBlock::Shared shared(1);
      const Outcome outcome = barrier_of_grid(
          world.memory(0), blocks, &grid, kEverybody, HostBlock{shared, 0, 1, blocks});
      EXPECT_EQ(outcome.trouble(), Trouble::timeout);
      if (blocks == 3) {
        EXPECT_EQ(outcome.peer(), 0) << "it is this rank's own grid that is not complete";
      }
    });
  }
}
}  // namespace
