// Words of blocks that several ranks change at a time, and copies of a value.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/support/group.hpp"
#include "tests/support/sanitizers.hpp"
#include "tests/support/word_history.hpp"

namespace support {
namespace {
constexpr symm_atomic_op_t kOperations[] = {SYMM_ATOMIC_FETCH, SYMM_ATOMIC_ADD, SYMM_ATOMIC_AND,
    SYMM_ATOMIC_OR, SYMM_ATOMIC_XOR, SYMM_ATOMIC_SWAP, SYMM_ATOMIC_COMPARE_SWAP};

template <class Word>
Word fetch(const Memory& memory, int rank, size_t offset, symm_atomic_op_t op, Word value = 0,
    Word compare = 0) {
  Word before = 0;
  if constexpr (sizeof(Word) == 4) {
    memory.atomic32(rank, offset, op, value, compare, &before);
  } else {
    memory.atomic64(rank, offset, op, value, compare, &before);
  }
  return before;
}

template <class Word>
void expect_as_the_model(const Memory& memory, int rank, size_t offset, unsigned seed) {
  std::mt19937_64 random(seed);
  Word word = 0;
  for (int i = 0; i < 10'000; ++i) {
    const symm_atomic_op_t op = kOperations[random() % std::size(kOperations)];
    const auto value = static_cast<Word>(op == SYMM_ATOMIC_FETCH ? 0 : random());
    // Every other comparison holds.
    const Word compared = random() % 2 == 0 ? word : static_cast<Word>(random());
    const Word compare = op == SYMM_ATOMIC_COMPARE_SWAP ? compared : 0;
    ASSERT_EQ(fetch<Word>(memory, rank, offset, op, value, compare), word) << "operation " << op;
    word = changed(op, word, value, compare);
  }

  EXPECT_EQ(fetch<Word>(memory, rank, offset, SYMM_ATOMIC_FETCH), word);
  if constexpr (sizeof(Word) == 4) {
    EXPECT_EQ(memory.read_value32(rank, offset), word);
  } else {
    EXPECT_EQ(memory.read_value64(rank, offset), word);
  }
}

TEST(Words, ChangeAsTheOperationSays) {
  as_processes(2, [](int rank, const Group& group) {
    const Block block = allocate(group, 64);
    // Each rank has a word at the other one, with words beside it that stay as they are.
    expect_as_the_model<uint32_t>(block.memory, 1 - rank, 4, 1);
    expect_as_the_model<uint64_t>(block.memory, 1 - rank, 16, 2);
    group.barrier();
    for (const size_t untouched : {0, 2, 3, 6, 7}) {
      EXPECT_EQ(block.at<uint32_t>(rank)[untouched], 0U) << untouched;
    }
  });
}

// Sums are exact, and no two additions fetch the same: they
// happened one after the other. What one rank fetches grows,
// so they happened in the order in which the rank made them.
TEST(Words, AdditionsOfManyRanksAreAllThere) {
#if defined(SYMM_UNDER_TSAN) || defined(SYMM_UNDER_ASAN)
  static constexpr uint64_t kAll = 64'000;
#else
  static constexpr uint64_t kAll = 10'000'000;
#endif
  constexpr int kRanks = 4;
  as_processes(kRanks, [](int, const Group& group) {
    const Block block = allocate(group, 64 + kAll / 8);
    const size_t narrow = 8;
    constexpr size_t kSeen = 64;

    uint64_t last = 0;
    for (uint64_t i = 0; i < kAll / kRanks; ++i) {
      const uint64_t before = fetch<uint64_t>(block.memory, 0, 0, SYMM_ATOMIC_ADD, 1);
      ASSERT_TRUE(i == 0 || before > last) << before << " after " << last;
      last = before;
      // A bit for each value that was fetched. It is added,
      // so that one that is fetched twice spoils the word.
      if (i % 16 == 0) {
        block.memory.atomic32(0, narrow, SYMM_ATOMIC_ADD, 1);
        const size_t at = kSeen + before / 64 * 8;
        block.memory.atomic64(0, at, SYMM_ATOMIC_ADD, uint64_t{1} << before % 64);
      } else {
        auto* seen = reinterpret_cast<std::atomic<uint64_t>*>(block.at<std::byte>(0) + kSeen);
        seen[before / 64].fetch_add(uint64_t{1} << before % 64);
      }
    }

    group.barrier();
    EXPECT_EQ(block.at<uint64_t>(0)[0], kAll);
    EXPECT_EQ(block.memory.read_value32(0, narrow), kAll / 16);
    for (uint64_t i = 0; i < kAll / 64; ++i) {
      ASSERT_EQ((block.at<uint64_t>(0) + kSeen / 8)[i], UINT64_MAX) << "values from " << i * 64;
    }
    group.barrier();
  });
}

// A counter that is read, and written if nobody else has meanwhile; and a lock made of a swap,
// which keeps plain accesses apart.
TEST(Words, ComparisonsAndSwapsLetOneRankAtATime) {
  as_processes(3, [](int, const Group& group) {
    const Block block = allocate(group, 256);
    constexpr uint32_t kRounds = 3000;
    auto* guarded = block.at<volatile uint64_t>(0) + 16;
    for (uint32_t i = 0; i < kRounds; ++i) {
      uint32_t seen = block.memory.read_value32(0, 0);
      while (true) {
        const auto before =
            fetch<uint32_t>(block.memory, 0, 0, SYMM_ATOMIC_COMPARE_SWAP, seen + 1, seen);
        if (before == seen) break;
        seen = before;
      }

      while (fetch<uint64_t>(block.memory, 0, 64, SYMM_ATOMIC_SWAP, 1) != 0)
        sched_yield();
      *guarded = *guarded + 1;
      block.memory.atomic64(0, 64, SYMM_ATOMIC_SWAP, 0);
    }

    group.barrier();
    EXPECT_EQ(block.memory.read_value32(0, 0), 3 * kRounds);
    EXPECT_EQ(*guarded, 3 * kRounds);
    group.barrier();
  });
}

// ---- histories

// Rank 1 swaps in a 5 while rank 0 reads, and rank 0 reads again after that.
WordHistory right() {
  const auto call = [](symm_atomic_op_t op, int64_t begun, int64_t ended, uint64_t value,
                        uint64_t before) {
    return WordEvent{begun, ended, value, 0, before, op, 1};
  };
  return {{call(SYMM_ATOMIC_FETCH, 0, 10, 0, 3), call(SYMM_ATOMIC_FETCH, 11, 20, 0, 5),
              call(SYMM_ATOMIC_ADD, 30, 40, 1, 5)},
      {call(SYMM_ATOMIC_SWAP, 5, 15, 5, 3), call(SYMM_ATOMIC_ADD, 32, 38, 1, 6)}};
}

TEST(WordHistories, TheCheckerRefusesWhatCannotBe) {
  EXPECT_TRUE(can_be(right(), 3));
  EXPECT_FALSE(can_be(right(), 4));

  WordHistory history = right();
  // Both additions fetch the same.
  history[1][1].before = 5;
  EXPECT_FALSE(can_be(history, 3));

  // The second read sees an older word than the first.
  history = right();
  history[0][0].before = 5;
  history[0][1].before = 3;
  EXPECT_FALSE(can_be(history, 3));

  // The swap has ended, and is not seen.
  history = right();
  history[0][1].begun_ns = 16;
  history[0][1].before = 3;
  EXPECT_FALSE(can_be(history, 3));
  // But one of which nothing is fetched may come later.
  history[1][0].fetches = 0;
  EXPECT_TRUE(can_be(history, 3));

  // A comparison that has not held has changed the word.
  history = right();
  history[1][0].op = SYMM_ATOMIC_COMPARE_SWAP;
  history[1][0].compare = 4;
  EXPECT_FALSE(can_be(history, 3));
  history[1][0].compare = 3;
  EXPECT_TRUE(can_be(history, 3));
}

template <class Word>
void expect_histories_that_can_be(int rank, const Group& group) {
  constexpr size_t kCalls = 400;
  constexpr int kRounds = 25;
  constexpr int kRanks = 3;
  constexpr size_t kEvents = 64;
  const Block block = allocate(group, kEvents + kRanks * kCalls * sizeof(WordEvent));
  std::mt19937_64 random(static_cast<unsigned>(rank));
  size_t overlapping = 0;

  for (int round = 0; round < kRounds; ++round) {
    const auto first = fetch<Word>(block.memory, 0, 8, SYMM_ATOMIC_FETCH);
    group.barrier();
    const auto mine = record_changes(random, kCalls, [&](const WordEvent& call) {
      const auto value = static_cast<Word>(call.value);
      const auto compare = static_cast<Word>(call.compare);
      if (call.fetches != 0) {
        return uint64_t{fetch<Word>(block.memory, 0, 8, call.op, value, compare)};
      }
      if constexpr (sizeof(Word) == 4) {
        block.memory.atomic32(0, 8, call.op, value, compare);
      } else {
        block.memory.atomic64(0, 8, call.op, value, compare);
      }
      return uint64_t{0};
    });
    auto* const events = reinterpret_cast<WordEvent*>(block.at<std::byte>(0) + kEvents);
    std::copy(mine.begin(), mine.end(), events + kCalls * static_cast<size_t>(rank));
    group.barrier();

    WordHistory history;
    for (size_t other = 0; other < kRanks; ++other) {
      history.emplace_back(events + kCalls * other, events + kCalls * (other + 1));
    }
    overlapping += overlaps(history);
    if (rank == round % kRanks) {
      EXPECT_TRUE(can_be(history, first)) << "round " << round;
    }
    group.barrier();
  }
  EXPECT_GT(overlapping, 0U);
}

// Calls of all kinds on one word by three ranks took effect one after the other, each between its
// begin and its end.
TEST(WordHistories, OfAllRanksCanBe) {
  as_processes(3, [](int rank, const Group& group) {
    expect_histories_that_can_be<uint32_t>(rank, group);
    expect_histories_that_can_be<uint64_t>(rank, group);
  });
}

// More ranks than processors: they sleep. A lost wake-up would
// cost a look a millisecond later, so the time is not looked at;
// that a change wakes at all is what the bell of a writer is for.
TEST(Words, ChangesWakeASleeper) {
  as_processes(4, [](int rank, const Group& group) {
    const Block block = allocate(group, 64);
    for (uint64_t round = 1; round <= 300; ++round) {
      block.memory.atomic64((rank + 1) % 4, 8, SYMM_ATOMIC_ADD, uint64_t{1} << 32);
      block.memory.wait_value64(8, SYMM_COMPARE_GE, round << 32);
    }
    group.barrier();
  });
}

// ---- copies of a value

template <class Value, class Fill>
void expect_filled(const Block& block, int rank, int next, Value value, const Fill& fill) {
  constexpr size_t kFirst = 5;
  constexpr size_t kCount = 1001;
  fill(next, kFirst * sizeof(Value), value, kCount);
  fill(next, (kFirst + kCount + 1) * sizeof(Value), value, size_t{0});
  block.memory.signal(next);
  block.memory.wait_signal(next);

  const Value* const at = block.at<Value>(rank);
  EXPECT_EQ(at[kFirst - 1], 0U) << sizeof(Value);
  for (size_t i = kFirst; i < kFirst + kCount; ++i) {
    ASSERT_EQ(at[i], value) << sizeof(Value) << " bytes, element " << i;
  }
  EXPECT_EQ(at[kFirst + kCount], 0U) << sizeof(Value);
  EXPECT_EQ(at[kFirst + kCount + 1], 0U) << sizeof(Value);
}

TEST(Words, CopiesOfAValueOfAnySize) {
  as_processes(2, [](int rank, const Group& group) {
    const int next = 1 - rank;
    const auto filled = [&](auto value, auto fill) {
      const Block block = allocate(group, 1 << 14);
      expect_filled(block, rank, next, value, [&](int to, size_t offset, auto what, size_t count) {
        (block.memory.*fill)(to, offset, what, count, {}, nullptr);
      });
    };
    filled(uint8_t{0xA5}, &Memory::fill8);
    filled(uint16_t{0xA5B6}, &Memory::fill16);
    filled(uint32_t{0xA5B6C7D8}, &Memory::fill32);
    filled(uint64_t{0xA5B6C7D801020304}, &Memory::fill64);
    group.barrier();
  });
}

TEST(Words, PutWithASignalThatHasAValue) {
  as_processes(2, [](int rank, const Group& group) {
    const Block block = allocate(group, 1 << 12);
    for (uint64_t round = 1; round <= 1000; ++round) {
      const std::vector<uint64_t> mine(100, round * 2 + static_cast<uint64_t>(rank));
      block.memory.put_signal_value(1 - rank, 0, mine, 2, SYMM_SIGNAL_SET, round << 33);
      block.memory.wait_signal_value(1 - rank, 2, SYMM_COMPARE_EQ, round << 33);
      ASSERT_EQ(block.at<uint64_t>(rank)[99], round * 2 + static_cast<uint64_t>(1 - rank));
      group.barrier();
    }

    // What is refused has written nothing.
    const uint64_t other = 7;
    expect_failure(SYMM_ERR_UNSUPPORTED, {"op"}, [&] {
      check(symm_put_signal_value(
          block.memory.get(), rank, 0, &other, sizeof other, 0, 2, 1, nullptr, nullptr));
    });
    EXPECT_NE(block.at<uint64_t>(rank)[0], other);
    group.barrier();
  });
}
}  // namespace
}  // namespace support
