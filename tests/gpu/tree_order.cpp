// Sums in tree order on GPUs: a product has the same bits however many ranks share it, whatever
// reduces it; and the order takes hardly longer than that of the ranks. What every algorithm gives
// is compared with a reference in collectives.cpp.
#include <algorithm>
#include <array>

#include "tests/gpu/world.hpp"
#include "tests/support/options.hpp"

namespace {
// ---- a product of matrices, shared by some ranks

constexpr size_t kTall = 24;
constexpr size_t kWide = 100;
constexpr size_t kInner = 512;
constexpr size_t kBlock = 32;
constexpr size_t kBlocks = kInner / kBlock;
constexpr size_t kResults = kTall * kWide;

float element_of(size_t seed, size_t i) {
  const auto random = static_cast<uint32_t>((i + seed) * 2'654'435'761U);
  return static_cast<float>(random >> 8) * 0x1p-24F - 0.5F;
}

// The tree of the blocks first .. last-1 of the inner dimension, a power of two of blocks.
std::vector<float> product(size_t first, size_t last) {
  std::vector<float> sums(kResults);
  if (last - first > 1) {
    const size_t middle = (first + last) / 2;
    sums = product(first, middle);
    const std::vector<float> right = product(middle, last);
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] += right[i];
    }
    return sums;
  }

  for (size_t row = 0; row < kTall; ++row) {
    for (size_t column = 0; column < kWide; ++column) {
      float& sum = sums[row * kWide + column];
      for (size_t k = first * kBlock; k < last * kBlock; ++k) {
        const float term = element_of(1, row * kInner + k) * element_of(2, k * kWide + column);
        sum += term;
      }
    }
  }
  return sums;
}

std::string name_of(int algorithm) { return "algorithm " + std::to_string(algorithm); }

// What ranks get together of their parts of the product, by an algorithm that may refuse.
void share(const gpu::Rank& rank, std::barrier<>& together, const std::vector<float>& right,
    symm_algorithm_t algorithm) {
  const size_t share = kBlocks / static_cast<size_t>(rank.size);
  const auto first = static_cast<size_t>(rank.rank) * share;
  rank.upload(rank.block, product(first, first + share));
  rank.settle(together);

  char* const recv = rank.block + gpu::Rank::kBlock / 2;
  const symm_status_t status = symm_allreduce(rank.group, rank.block, recv, kResults,
      SYMM_DTYPE_F32, SYMM_OP_SUM, support::ordered(SYMM_ORDER_TREE, algorithm), rank.stream);
  if (status == SYMM_ERR_INVALID_ARGUMENT && algorithm != SYMM_ALGORITHM_AUTO) return;
  gpu::symm(status, "allreduce");
  rank.settle(together);
  gpu::expect(rank.download<float>(recv, kResults) == right,
      gpu::who(rank, "the product, " + name_of(algorithm)));
}

TEST(TreeOrder, HasTheSameBitsHoweverManyRanksShareTheWork) {
  const std::vector<float> right = product(0, kBlocks);
  for (const int size : {1, 2, 4, 8, 16}) {
    gpu::run_ranks(size, [&](gpu::Rank& rank, std::barrier<>& together) {
      for (const symm_algorithm_t algorithm :
          {SYMM_ALGORITHM_AUTO, SYMM_ALGORITHM_LL, SYMM_ALGORITHM_ONE_SHOT, SYMM_ALGORITHM_TWO_SHOT,
              SYMM_ALGORITHM_TWO_SHOT_STAGED, SYMM_ALGORITHM_HYBRID_CUBE_MESH}) {
        share(rank, together, right, algorithm);
      }
    });
  }
}

// ---- what the order costs

struct Measured {
  symm_collective_t collective;
  symm_dtype_t dtype;
  size_t bytes;  // of an operand
};

constexpr int kCalls = 20;
constexpr int kReplays = 3;
constexpr size_t kRounds = 9;

class Event {
 public:
  Event() { gpu::cuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(Event&&) = delete;

  void record(cudaStream_t stream) const {
    gpu::cuda(cudaEventRecord(event_, stream), "cudaEventRecord");
  }
  double microseconds_since(const Event& begin) const {
    float milliseconds = 0;
    gpu::cuda(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "cudaEventElapsedTime");
    return 1e3 * static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Calls that are replayed, each behind the one before.
gpu::Graph calls_of(const gpu::Rank& rank, const Measured& m, symm_order_t order) {
  const int parts = m.collective == SYMM_COLLECTIVE_REDUCE_SCATTER ? rank.size : 1;
  const auto element = static_cast<size_t>(m.dtype & 0xFF) / 8;
  const size_t count = m.bytes / element / static_cast<size_t>(parts);
  return {rank, [&] {
            for (int i = 0; i < kCalls; ++i) {
              const auto call = support::call_of(m.collective, rank.block,
                  rank.block + gpu::Rank::kBlock / 2, count, m.dtype, SYMM_OP_SUM, 0);
              gpu::symm(
                  support::run(rank.group, call, support::ordered(order), rank.stream), "a call");
            }
          }};
}

double time_of(const gpu::Rank& rank, std::barrier<>& together, const gpu::Graph& calls) {
  const Event begin;
  const Event end;
  rank.settle(together);
  calls.replay();
  begin.record(rank.stream);
  for (int i = 0; i < kReplays; ++i) {
    calls.replay();
  }
  end.record(rank.stream);
  rank.settle(together);
  return end.microseconds_since(begin) / (kReplays * kCalls);
}

// The times in both orders, measured by turns.
std::array<double, 2> times_of(const gpu::Rank& rank, std::barrier<>& together, const Measured& m) {
  const gpu::Graph in_rank_order = calls_of(rank, m, SYMM_ORDER_RANKS);
  const gpu::Graph in_tree_order = calls_of(rank, m, SYMM_ORDER_TREE);
  std::array<std::vector<double>, 2> times;
  for (size_t round = 0; round < kRounds; ++round) {
    times[0].push_back(time_of(rank, together, in_rank_order));
    times[1].push_back(time_of(rank, together, in_tree_order));
  }

  std::array<double, 2> medians{};
  for (size_t order = 0; order < medians.size(); ++order) {
    std::sort(times[order].begin(), times[order].end());
    medians[order] = times[order][kRounds / 2];
  }
  return medians;
}

TEST(TreeOrder, TakesHardlyLonger) {
  const int n = gpu::machine().ranks;
  if (n <= 3) GTEST_SKIP() << "up to three ranks have one order";
  std::vector<Measured> all;
  for (const symm_collective_t collective :
      {SYMM_COLLECTIVE_ALLREDUCE, SYMM_COLLECTIVE_REDUCE_SCATTER, SYMM_COLLECTIVE_REDUCE}) {
    for (const symm_dtype_t dtype : {SYMM_DTYPE_BF16, SYMM_DTYPE_F32, SYMM_DTYPE_F64}) {
      for (size_t bytes = 1024; bytes <= gpu::Rank::kBlock / 2; bytes *= 8) {
        all.push_back({collective, dtype, bytes});
      }
    }
  }

  std::vector<double> ratios(all.size());
  gpu::run_ranks(n, [&](gpu::Rank& rank, std::barrier<>& together) {
    gpu::cuda(cudaMemsetAsync(rank.block, 0, gpu::Rank::kBlock, rank.stream), "zeros");
    for (size_t i = 0; i < all.size(); ++i) {
      const std::array<double, 2> times = times_of(rank, together, all[i]);
      if (rank.rank != 0) continue;
      ratios[i] = times[1] / times[0];
      std::printf("collective %d dtype 0x%x %9zu bytes: ranks %9.2f us, tree %9.2f us, %.3f\n",
          all[i].collective, static_cast<unsigned>(all[i].dtype), all[i].bytes, times[0], times[1],
          ratios[i]);
    }
  });

  std::sort(ratios.begin(), ratios.end());
  std::printf("%d ranks: median %.3f, largest %.3f\n", n, ratios[ratios.size() / 2], ratios.back());
  EXPECT_LT(ratios[ratios.size() / 2], 1.1);
}
}  // namespace
