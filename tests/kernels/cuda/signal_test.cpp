// The kernels of barriers and signals, compiled for the host, on several streams of each rank: each
// barrier and signal counts once, none ends early, and none is lost.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <ranges>
#include <span>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/compare.hpp"
#include "kernels/cuda/args.hpp"
#include "tests/kernels/cuda/model/kernels/cuda/memory.cuh"
#include "tests/kernels/cuda/world.hpp"
#include "tests/support/combinations.hpp"

extern "C" void symm_barrier(symm::cuda::BarrierArgs args);
extern "C" void symm_check(symm::cuda::CheckArgs args);
extern "C" void symm_write_word(symm::cuda::WriteArgs args);
extern "C" void symm_change_word(symm::cuda::AtomicArgs args);
extern "C" void symm_wait_word(symm::cuda::WaitWordArgs args);
extern "C" void symm_wait_words(symm::cuda::WaitWordsArgs args);

namespace symm::cuda::model {
namespace {
using support::for_each_combination;

constexpr uint32_t kChannel = 3;

// A thread of a barrier's kernel deals with one peer. begun_ and ended_ count, for each rank and
// peer, the barriers that the rank's thread for that peer has begun and ended.
class Barriers {
 public:
  explicit Barriers(const Ranks::Options& options)
      : ranks_(options), begun_(16 * 16), ended_(16 * 16) {}

  Ranks& ranks() { return ranks_; }

  void launch(int rank, unsigned stream, int size) {
    BarrierArgs args{ranks_.comm(rank), RankSet::first(size), kChannel};
    const int number = static_cast<int>(stream) * size + rank;
    ranks_.launch(number,
        [this, args, rank](const CollectiveArgs&) {
          const auto me = static_cast<size_t>(rank);
          const size_t peer = thread_index.x;
          ++begun_[me * 16 + peer];
          symm_barrier(args);
          too_early_ = too_early_ || ++ended_[me * 16 + peer] > begun_[peer * 16 + me];
        },
        {});
  }

  bool ended_too_early() const { return too_early_; }

 private:
  Ranks ranks_;
  std::vector<int> begun_;
  std::vector<int> ended_;
  bool too_early_ = false;
};

TEST(BarrierKernel, CountsOnAnyNumberOfStreams) {
  constexpr int kRounds = 2000;
  for (unsigned seed = 1; seed < 5; ++seed) {
    const int size = 2 + static_cast<int>(seed % 2);
    const unsigned streams = 1 + seed % 3;
    Barriers barriers({.ranks = size,
        .groups = static_cast<int>(streams),
        .are_streams = true,
        .seed = seed,
        .threads = static_cast<unsigned>(size)});

    for_each_combination(std::tuple(std::views::iota(0, kRounds), std::views::iota(0, size),
                             std::views::iota(0U, streams)),
        [&](int, int rank, unsigned stream) { barriers.launch(rank, stream, size); });

    ASSERT_TRUE(barriers.ranks().run()) << "nothing goes on, seed " << seed;
    EXPECT_FALSE(barriers.ended_too_early()) << "seed " << seed;

    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ(barriers.ranks().record(rank).state, 0U);
      const ControlWords& words = barriers.ranks().words(rank);
      for (int peer = 0; peer < size; ++peer) {
        const uint32_t expected = peer == rank ? 0 : kRounds * streams;
        EXPECT_EQ(words.barrier_taken[kChannel][peer], expected);
        EXPECT_EQ(words.from_peers.barrier[kChannel][peer], expected);
      }
    }
  }
}

// Words of rank 1: signals from rank 0, and those taken.
struct Words {
  uint64_t signals = 0;
  uint64_t taken = 0;
  uint64_t other = 0;
};

uint64_t address(const uint64_t& word) { return reinterpret_cast<uintptr_t>(&word); }

class Signals {
 public:
  explicit Signals(
      unsigned seed, unsigned streams, unsigned threads = 1, uint64_t timeout_ns = UINT64_MAX)
      : ranks_({.ranks = 2,
            .groups = static_cast<int>(streams),
            .are_streams = true,
            .seed = seed,
            .threads = threads,
            .timeout_ns = timeout_ns}) {}

  Ranks& ranks() { return ranks_; }

  void write(uint64_t& word, uint64_t value, WriteKind kind, unsigned stream = 0) {
    launch(0, [args = WriteArgs{address(word), value, kind, 0}] { symm_write_word(args); }, stream);
  }

  void take(unsigned stream, std::function<void()> then = [] {}) {
    WaitWordArgs args{
        comm(), address(words.taken), {address(words.signals), 0, 0, kChannel, Compare::ge, 8}};
    const auto kernel = [args, then] {
      symm_wait_word(args);
      then();
    };
    launch(1, kernel, stream);
  }

  void wait(uint64_t& word, Compare compare, uint64_t value, uint32_t bytes = 8) {
    WaitWordArgs args{comm(), 0, {address(word), value, 0, kChannel, compare, bytes}};
    launch(1, [args] { symm_wait_word(args); });
  }

  void wait_both(bool any) {
    WaitWordsArgs args{comm(), 2, any ? 1U : 0U, {}};
    args.wait[0] = {address(words.signals), 5, 0, kChannel, Compare::ge, 8};
    args.wait[1] = {address(words.other), 7, 0, kChannel, Compare::eq, 8};
    launch(1, [args] { symm_wait_words(args); });
  }

  DeviceComm comm() const {
    DeviceComm comm = ranks_.comm(1);
    comm.operation = static_cast<uint32_t>(Operation::wait_signal);
    return comm;
  }

  void launch(int rank, const std::function<void()>& kernel, unsigned stream = 0) {
    ranks_.launch(
        static_cast<int>(stream) * 2 + rank, [kernel](const CollectiveArgs&) { kernel(); }, {});
  }

  Words words;

 private:
  Ranks ranks_;
};

TEST(SignalKernels, NoTwoTakeTheSameSignal) {
  constexpr int kRounds = 1000;
  for (unsigned seed = 0; seed < 6; ++seed) {
    const unsigned streams = 1 + seed % 3;
    Signals signals(seed, streams);
    uint64_t ended = 0;
    bool too_early = false;

    for (unsigned stream = 0; stream < streams; ++stream) {
      for (int i = 0; i < kRounds; ++i) {
        signals.write(signals.words.signals, 1, WriteKind::add, stream);
        signals.take(stream, [&] { too_early = too_early || ++ended > signals.words.signals; });
      }
    }

    ASSERT_TRUE(signals.ranks().run()) << "seed " << seed;
    EXPECT_FALSE(too_early) << "seed " << seed;
    EXPECT_EQ(signals.words.signals, kRounds * streams);
    EXPECT_EQ(signals.words.taken, kRounds * streams);
  }
}

TEST(SignalKernels, OneSignalIsForOneOfTwo) {
  Signals signals(1, 2, 1, 100'000);
  signals.write(signals.words.signals, 1, WriteKind::add);
  int ended = 0;

  for (unsigned stream = 0; stream < 2; ++stream) {
    signals.take(stream, [&] { ended += signals.ranks().record(1).state == 0; });
  }
  EXPECT_TRUE(signals.ranks().run());
  EXPECT_EQ(ended, 1);

  const ErrorRecord& record = signals.ranks().record(1);
  EXPECT_EQ(record.trouble, static_cast<uint32_t>(WaitError::timeout));
  EXPECT_EQ(record.peer, 0);
  EXPECT_EQ(record.my_count, 2U);
  EXPECT_EQ(record.peer_count, 1U);
}

TEST(SignalKernels, WordsAreWrittenAndComparedInAllWays) {
  constexpr uint64_t kHigh = uint64_t{1} << 40;
  for (unsigned seed = 0; seed < 20; ++seed) {
    Signals signals(seed, 1);
    Words& words = signals.words;
    signals.write(words.signals, kHigh, WriteKind::store64);
    signals.write(words.signals, 2, WriteKind::add);
    signals.write(words.other, kHigh + 9, WriteKind::store32);
    signals.wait(words.signals, Compare::eq, kHigh + 2);
    signals.wait(words.signals, Compare::ge, kHigh + 2);
    signals.wait(words.signals, Compare::gt, kHigh + 1);
    signals.wait(words.signals, Compare::le, kHigh + 2);
    signals.wait(words.signals, Compare::ne, kHigh);
    signals.wait(words.other, Compare::eq, 9, 4);
    signals.wait(words.other, Compare::lt, 10);

    ASSERT_TRUE(signals.ranks().run()) << "seed " << seed;
    EXPECT_EQ(signals.ranks().record(1).state, 0U);
    EXPECT_EQ(words.signals, kHigh + 2);
    EXPECT_EQ(words.other, 9U);
  }
}

// A word of chunks only grows, and wraps; its value may lie in memory.
TEST(SignalKernels, WordsOfChunksWrap) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Signals signals(seed, 1);
    alignas(8) uint32_t word[2] = {UINT32_MAX - 1, 0};
    alignas(8) uint32_t value[2] = {UINT32_MAX, 0};
    const auto at = [](const uint32_t* of) { return reinterpret_cast<uintptr_t>(of); };
    const WriteArgs first{at(word), 1, WriteKind::store32, 0, at(value)};
    const WriteArgs second{at(word), 1, WriteKind::store32, 0};
    bool too_early = false;
    const auto wait = [&](uint64_t wanted, const uint32_t* from) {
      WaitWordArgs args{signals.comm(), 0, {at(word), wanted, -1, 0, Compare::ge, 4},
          from == nullptr ? 0 : at(from), 1};
      signals.launch(1, [&, args, wanted, from] {
        symm_wait_word(args);
        const auto reached = static_cast<uint32_t>(from == nullptr ? wanted : *from);
        too_early = too_early || static_cast<int32_t>(word[0] - reached) < 0;
      });
    };
    signals.launch(0, [first] { symm_write_word(first); });
    signals.launch(0, [second] { symm_write_word(second); });
    wait(0, value);
    wait(1, nullptr);

    ASSERT_TRUE(signals.ranks().run()) << "seed " << seed;
    EXPECT_EQ(signals.ranks().record(1).state, 0U);
    EXPECT_FALSE(too_early) << "seed " << seed;
    EXPECT_EQ(word[0], 1U);
  }
}

// A signal behind pieces is not sent once a kernel of its rank has given up.
TEST(SignalKernels, NothingIsWrittenOnceAKernelHasGivenUp) {
  Signals signals(1, 1);
  Words& words = signals.words;
  uint32_t has_given_up = 0;
  const auto write = [&](uint64_t& word) {
    const WriteArgs args{
        address(word), 5, WriteKind::add, reinterpret_cast<uintptr_t>(&has_given_up)};
    signals.launch(0, [args] { symm_write_word(args); });
    ASSERT_TRUE(signals.ranks().run());
  };

  write(words.signals);
  has_given_up = 1;
  write(words.other);
  EXPECT_EQ(words.signals, 5U);
  EXPECT_EQ(words.other, 0U);
}

// A captured wait is replayed when the group has failed: it neither waits nor counts.
TEST(SignalKernels, NoSignalIsTakenOnceTheGroupHasFailed) {
  Signals signals(1, 1);
  Words& words = signals.words;
  uint32_t has_failed = 1;
  WaitWordArgs args{signals.comm(), address(words.taken),
      {address(words.signals), 0, 0, kChannel, Compare::ge, 8}};
  args.unless = reinterpret_cast<uintptr_t>(&has_failed);
  const auto take = [&] {
    signals.launch(1, [args] { symm_wait_word(args); });
    ASSERT_TRUE(signals.ranks().run());
  };

  take();
  EXPECT_EQ(words.taken, 0U);
  has_failed = 0;
  words.signals = 1;
  take();
  EXPECT_EQ(words.taken, 1U);
}

// Kernels of both ranks change one word, on several streams: each sees what another one has left.
TEST(SignalKernels, ChangesOfAWordFollowEachOther) {
  constexpr uint64_t kRounds = 500;
  for (unsigned seed = 0; seed < 6; ++seed) {
    const unsigned streams = 1 + seed % 3;
    const uint64_t all = 2 * streams * kRounds;
    Signals signals(seed, streams);
    std::vector<uint64_t> fetched(all);
    std::vector<uint32_t> narrow(all);
    uint32_t word = 0;
    for (uint64_t i = 0; i < all; ++i) {
      const auto rank = static_cast<int>(i % 2);
      const auto stream = static_cast<unsigned>(i / 2 % streams);
      const AtomicArgs wide{address(signals.words.signals), address(fetched[i]), uint64_t{1} << 32,
          0, AtomicOp::add, 8};
      const AtomicArgs other{reinterpret_cast<uintptr_t>(&word),
          reinterpret_cast<uintptr_t>(&narrow[i]), 3, 0, AtomicOp::add, 4};
      signals.launch(rank, [wide] { symm_change_word(wide); }, stream);
      signals.launch(rank, [other] { symm_change_word(other); }, stream);
    }

    ASSERT_TRUE(signals.ranks().run()) << "seed " << seed;
    EXPECT_EQ(signals.words.signals, all << 32);
    EXPECT_EQ(word, 3 * all);
    std::sort(fetched.begin(), fetched.end());
    std::sort(narrow.begin(), narrow.end());
    for (uint64_t i = 0; i < all; ++i) {
      ASSERT_EQ(fetched[i], i << 32) << "seed " << seed;
      ASSERT_EQ(narrow[i], 3 * i) << "seed " << seed;
    }
  }
}

TEST(SignalKernels, WordsAreChangedInAllWays) {
  Signals signals(1, 1);
  Words& words = signals.words;
  uint64_t before[7] = {};
  const auto change = [&](size_t step, AtomicOp op, uint64_t value, uint64_t compare = 0) {
    const AtomicArgs args{
        address(words.other), address(before[step]), value, compare, op, sizeof(uint64_t)};
    signals.launch(0, [args] { symm_change_word(args); });
  };
  change(0, AtomicOp::swap, 12);
  change(1, AtomicOp::band, 10);
  change(2, AtomicOp::bor, 3);
  change(3, AtomicOp::bxor, 9);
  change(4, AtomicOp::compare_swap, 7, 3);
  change(5, AtomicOp::compare_swap, 7, 2);
  change(6, AtomicOp::fetch, 0);
  // Nobody wants to know what the word was.
  const AtomicArgs silent{address(words.other), 0, 1, 0, AtomicOp::add, sizeof(uint64_t)};
  signals.launch(0, [silent] { symm_change_word(silent); });

  ASSERT_TRUE(signals.ranks().run());
  EXPECT_EQ(std::vector<uint64_t>(std::begin(before), std::end(before)),
      (std::vector<uint64_t>{0, 12, 8, 11, 2, 2, 7}));
  EXPECT_EQ(words.other, 8U);
}

TEST(SignalKernels, OneOfSeveralOrAllOfThem) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    for (const bool any : {false, true}) {
      for (const bool both : {false, true}) {
        Signals signals(seed, 1, 2, 20'000);
        if (both || seed % 2 == 0) signals.write(signals.words.signals, 5, WriteKind::store64);
        if (both || seed % 2 == 1) signals.write(signals.words.other, 7, WriteKind::store64);
        signals.wait_both(any);
        ASSERT_TRUE(signals.ranks().run()) << "seed " << seed << (any ? ", any" : ", all");
        EXPECT_EQ(signals.ranks().record(1).state, any || both ? 0U : 1U) << "seed " << seed;
      }
    }
  }
}

// A rank that has left writes no more signals, so that a wait for it ends and names it. A wait for
// any of several needs only one that is there.
TEST(SignalKernels, ARankThatHasLeftIsNamed) {
  Signals signals(3, 1);
  signals.ranks().told(1).departed.add(0);
  signals.wait_both(true);
  EXPECT_TRUE(signals.ranks().run());
  EXPECT_EQ(signals.ranks().record(1).trouble, static_cast<uint32_t>(WaitError::departed));
  EXPECT_EQ(signals.ranks().record(1).peer, 0);
}

TEST(SignalKernels, ChecksNameTheRankThatDiffers) {
  constexpr int kRanks = 3;
  constexpr int kCalls = 4;
  using Field = uint64_t CheckArgs::*;
  const auto expect_named = [](Field differs, unsigned seed) {
    Ranks ranks({.ranks = kRanks, .seed = seed, .threads = kRanks});
    for (uint64_t call = 0; call < kCalls; ++call) {
      for (int rank = 0; rank < kRanks; ++rank) {
        CheckArgs args{
            ranks.comm(rank), uint64_t{5} << 40 | call, 6, uint64_t{7} << 50, uint64_t{8} << 33};
        if (differs != nullptr && rank == 1 && call == kCalls - 1) {
          args.*differs += seed % 2 == 0 ? 1 : uint64_t{1} << 32;
        }
        ranks.launch(rank, [args](const CollectiveArgs&) { symm_check(args); }, {});
      }
    }

    ASSERT_TRUE(ranks.run()) << "seed " << seed;
    const bool lies_elsewhere = differs == &CheckArgs::memory || differs == &CheckArgs::offset;
    WaitError trouble = lies_elsewhere ? WaitError::other_place : WaitError::mismatch;
    if (differs == nullptr) trouble = WaitError::none;

    for (const int rank : {0, 2}) {
      EXPECT_EQ(ranks.record(rank).trouble, static_cast<uint32_t>(trouble)) << "seed " << seed;
      EXPECT_EQ(ranks.record(rank).peer, differs == nullptr ? 0 : 1);
    }
  };
  const Field fields[] = {
      nullptr, &CheckArgs::detail, &CheckArgs::count, &CheckArgs::memory, &CheckArgs::offset};
  for_each_combination(std::tuple(std::span(fields), std::views::iota(0U, 20U)), expect_named);
}
}  // namespace
}  // namespace symm::cuda::model
