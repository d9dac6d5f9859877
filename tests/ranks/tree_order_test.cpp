// Sums in tree order: every collective that reduces has the bits of a reference that takes one
// element at a time, by every algorithm; and a product of matrices has the same bits however many
// ranks share it.
#include <stdlib.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "symm/symm.h"
#include "tests/support/combinations.hpp"
#include "tests/support/machines.hpp"
#include "tools/bench/pattern.hpp"
#include "tools/bench/reference.hpp"

namespace support {
namespace {
using symm::tool::Operands;
using symm::tool::Pattern;

constexpr std::array kTreeFloats = {SYMM_DTYPE_F32, SYMM_DTYPE_F64, SYMM_DTYPE_F16, SYMM_DTYPE_BF16,
    SYMM_DTYPE_F8E4M3, SYMM_DTYPE_F8E5M2};
constexpr std::array kTreeOps = {SYMM_OP_SUM, SYMM_OP_AVG, SYMM_OP_PROD};

// Calls of one group, with private or symmetric operands, in place or not.
class Trees {
 public:
  // `most` bytes are a rank's largest block.
  Trees(const Group& group, size_t most)
      : group_(group),
        most_(most * static_cast<size_t>(group.size())),
        block_(allocate(group, 2 * most_)),
        first_(most_),
        second_(most_) {}

  void run(symm_dtype_t dtype, symm_op_t op, size_t bytes) {
    const Pattern pattern(dtype, op, group_.size(), SYMM_ORDER_TREE);
    for (const char* name : {"allreduce", "reduce_scatter", "reduce"}) {
      for (const symm_algorithm_t algorithm :
          {SYMM_ALGORITHM_AUTO, SYMM_ALGORITHM_LL, SYMM_ALGORITHM_ONE_SHOT, SYMM_ALGORITHM_TWO_SHOT,
              SYMM_ALGORITHM_TWO_SHOT_STAGED, SYMM_ALGORITHM_HYBRID_CUBE_MESH, SYMM_ALGORITHM_CHAIN,
              SYMM_ALGORITHM_BRUCK, SYMM_ALGORITHM_HIERARCHICAL}) {
        compare(pattern, operands_of(name, dtype, op, bytes), algorithm);
      }
    }
    compare_pieces(pattern, operands_of("reduce_scatter", dtype, op, bytes));
  }

  // The number of calls that were done by an algorithm that was asked for.
  int done(symm_algorithm_t algorithm) const {
    const auto found = done_.find(algorithm);
    return found == done_.end() ? 0 : found->second;
  }

 private:
  Operands operands_of(const char* name, symm_dtype_t dtype, symm_op_t op, size_t bytes) {
    shift_ += 37;
    const bool is_symmetric = shift_ % 3 == 0;
    auto* const memory = block_.at<std::byte>(group_.rank());
    return {symm::tool::find_operation(name), group_.rank(), group_.size(), dtype, op,
        static_cast<int>(shift_) % group_.size(), bytes / symm::tool::size_of(dtype),
        shift_ % 2 == 0, is_symmetric ? memory : first_.data(),
        is_symmetric ? memory + most_ : second_.data()};
  }

  // An algorithm that cannot do the call refuses it on all ranks.
  void compare(const Pattern& pattern, const Operands& operands, symm_algorithm_t algorithm) {
    operands.write_inputs(pattern, shift_);
    const symm_collective_call_t call = operands.record();
    const symm_status_t status =
        support::run(group_.get(), &call, ordered(SYMM_ORDER_TREE, algorithm));
    if (status == SYMM_ERR_INVALID_ARGUMENT && algorithm != SYMM_ALGORITHM_AUTO) return;
    check(status);
    ++done_[algorithm];
    ASSERT_EQ(operands.count_wrong(pattern, shift_), 0U)
        << operands.traits->name << " on rank " << operands.rank << " of " << operands.ranks
        << ", dtype " << operands.dtype << ", op " << operands.op << ", count " << operands.count
        << ", algorithm " << algorithm << (operands.in_place ? ", in place" : "");
  }

  void compare_pieces(const Pattern& pattern, const Operands& operands) {
    const std::vector<size_t> equal(static_cast<size_t>(group_.size()), operands.count);
    operands.write_inputs(pattern, shift_);
    check(symm_reduce_scatterv(group_.get(), operands.send(), equal.data(), nullptr,
        operands.recv(), operands.dtype, operands.op, ordered(SYMM_ORDER_TREE), nullptr));
    ASSERT_EQ(operands.count_wrong(pattern, shift_), 0U)
        << "reduce_scatterv, dtype " << operands.dtype << ", op " << operands.op;
  }

  const Group& group_;
  const size_t most_;
  const Block block_;
  std::vector<std::byte> first_;
  std::vector<std::byte> second_;
  size_t shift_ = 0;
  std::map<symm_algorithm_t, int> done_;
};

TEST(TreeOrder, HasTheBitsOfTheReference) {
  SYMM_NOT_UNDER_TSAN("a minute; tests/kernels runs the same algorithms");
  for (const int size : {1, 2, 4, 5, 6, 7, 8, 13, 16}) {
    as_threads(size, [size](int, const Group& group) {
      Trees trees(group, 24'000);
      for_each_combination(
          std::tuple(kTreeFloats, kTreeOps, std::array<size_t, 4>{8, 56, 1'000, 24'000}),
          [&](symm_dtype_t dtype, symm_op_t op, size_t bytes) {
            if (size > 8 && (bytes > 1'000 || op == SYMM_OP_AVG)) return;
            trees.run(dtype, op, bytes);
          });
      EXPECT_GT(trees.done(SYMM_ALGORITHM_ONE_SHOT), 50);
      EXPECT_GT(trees.done(SYMM_ALGORITHM_TWO_SHOT), 20);
      // A rank that is alone has nothing to do, by whatever algorithm.
      EXPECT_EQ(trees.done(SYMM_ALGORITHM_HYBRID_CUBE_MESH) > 0, size == 1 || size == 8);
    });
    if (testing::Test::HasFailure()) return;
  }
}

// ---- what a call of parts is made of

constexpr size_t kElements = 999;

uint64_t element_bits(symm_dtype_t dtype, int rank, size_t i) {
  const double x = static_cast<double>((i * 7919 + static_cast<size_t>(rank) * 104'729) % 2003) / 7;
  if (dtype == SYMM_DTYPE_F32) return symm::reference::to_bits(static_cast<float>(x));
  return symm::reference::encode(dtype, static_cast<float>(x));
}

std::vector<std::byte> elements_of_rank(symm_dtype_t dtype, int rank) {
  const size_t element = symm::tool::size_of(dtype);
  std::vector<std::byte> all(kElements * element);
  for (size_t i = 0; i < kElements; ++i) {
    symm::reference::store_bits(dtype, element_bits(dtype, rank, i), &all[i * element]);
  }
  return all;
}

std::vector<symm::reference::Bits> column(symm_dtype_t dtype, int size, size_t i) {
  std::vector<symm::reference::Bits> bits;
  for (int rank = 0; rank < size; ++rank) {
    bits.push_back(element_bits(dtype, rank, i));
  }
  return bits;
}

// A factor before or after the sum, and sums in a wider or a narrower type.
TEST(TreeOrder, HoldsWithAFactorAndInAnotherType) {
  for (const int size : {4, 5, 7, 8}) {
    as_threads(size, [size](int rank, const Group& group) {
      for_each_combination(
          std::tuple(std::array{SYMM_DTYPE_F32, SYMM_DTYPE_BF16},
              std::array{SYMM_SCALE_NONE, SYMM_SCALE_BEFORE, SYMM_SCALE_AFTER}, kTreeOps),
          [&](symm_dtype_t dtype, symm_scale_t position, symm_op_t op) {
            const std::vector<std::byte> send = elements_of_rank(dtype, rank);
            const symm_dtype_t result = dtype == SYMM_DTYPE_F32 ? SYMM_DTYPE_BF16 : SYMM_DTYPE_F32;
            const size_t element = symm::tool::size_of(result);
            std::vector<std::byte> recv(kElements * element);
            const double factor = position == SYMM_SCALE_NONE ? 0 : 0.1;
            auto options = scaled(position, factor, nullptr, result);
            options.value.order = SYMM_ORDER_TREE;
            check(symm_allreduce(
                group.get(), send.data(), recv.data(), kElements, dtype, op, options, nullptr));

            for (size_t i = 0; i < kElements; ++i) {
              const uint64_t right = symm::reference::reduce_scaled(
                  dtype, op, column(dtype, size, i), result, position, [&](int) { return factor; },
                  rank, SYMM_ORDER_TREE);
              ASSERT_TRUE(symm::reference::load_bits(result, &recv[i * element]) == right)
                  << "element " << i << ", dtype " << dtype << ", position " << position;
            }
          });
    });
  }
}

// Without a residual, residual_out is the sum; and the norm is that of the sum on one rank.
TEST(TreeOrder, HoldsInAnAllReduceWithRmsNorm) {
  constexpr size_t kLength = 64;
  constexpr size_t kTokens = kElements / kLength;
  constexpr symm_dtype_t kType = SYMM_DTYPE_BF16;
  for (const int size : {4, 6, 8}) {
    as_threads(
        size,
        [size](int rank, const Group& group) {
          const std::vector<std::byte> send = elements_of_rank(kType, rank);
          const std::vector<std::byte> weight = elements_of_rank(kType, 0);
          std::vector<uint16_t> sums(kTokens * kLength);
          std::vector<uint16_t> norms(sums.size());
          auto norm = normed(weight.data(), norms.data());
          norm.value.residual_out = sums.data();
          check(symm_allreduce_rmsnorm(
              group.get(), send.data(), kTokens, kLength, kType, norm, nullptr, nullptr));

          for (size_t i = 0; i < sums.size(); ++i) {
            const auto right = symm::reference::reduce(
                kType, SYMM_OP_SUM, column(kType, size, i), SYMM_ORDER_TREE);
            ASSERT_EQ(sums[i], static_cast<uint16_t>(right)) << "element " << i;
          }
          std::vector<uint16_t> again(norms.size());
          const Group one = alone("norm of rank " + std::to_string(rank));
          check(symm_allreduce_rmsnorm(one.get(), sums.data(), kTokens, kLength, kType,
              normed(weight.data(), again.data()), nullptr, nullptr));
          EXPECT_EQ(again, norms);
        },
        SYMM_GROUP_TREE_ORDER);
  }
}

// ---- which order a call has

// The operands of four ranks, which tell the orders apart, and their sums.
constexpr float kFour[] = {1, 0x1p-24F, 0x1p-24F, 0x1p-24F};
constexpr float kInRankOrder = 1;
constexpr float kInTreeOrder = 1 + 0x1p-23F;

float sum_of_four(const Group& group, symm_order_t order) {
  const float mine = kFour[group.rank()];
  float sum = 0;
  check(symm_allreduce(
      group.get(), &mine, &sum, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, ordered(order), nullptr));
  return sum;
}

TEST(TreeOrder, IsThatOfTheGroupUnlessACallSaysOtherwise) {
  as_threads(4, [](int, const Group& group) {
    EXPECT_EQ(sum_of_four(group, SYMM_ORDER_GROUP), kInRankOrder);
    EXPECT_EQ(sum_of_four(group, SYMM_ORDER_TREE), kInTreeOrder);
    symm_group_options_t options = SYMM_GROUP_OPTIONS_INIT;
    options.flags = SYMM_GROUP_TREE_ORDER;
    const Group part = group.split(0, 0, options);
    EXPECT_EQ(part.info().flags, SYMM_GROUP_TREE_ORDER);
    EXPECT_EQ(sum_of_four(part, SYMM_ORDER_GROUP), kInTreeOrder);
  });
  as_threads(
      4,
      [](int, const Group& group) {
        EXPECT_EQ(sum_of_four(group, SYMM_ORDER_GROUP), kInTreeOrder);
        EXPECT_EQ(sum_of_four(group, SYMM_ORDER_RANKS), kInRankOrder);
        symm_group_options_t options = SYMM_GROUP_OPTIONS_INIT;
        options.flags = SYMM_GROUP_RANK_ORDER;
        EXPECT_EQ(sum_of_four(group.split(0, 0, options), SYMM_ORDER_GROUP), kInRankOrder);
      },
      SYMM_GROUP_TREE_ORDER);
}

// Calls of a batch that differ in their order are not done as one.
TEST(TreeOrder, IsThatOfEachCallOfABatch) {
  as_threads(4, [](int rank, const Group& group) {
    const auto tree = ordered(SYMM_ORDER_TREE);
    std::array<float, 4> sums{};
    std::vector<symm_collective_call_t> calls;
    for (float& sum : sums) {
      calls.push_back(
          call_of(SYMM_COLLECTIVE_ALLREDUCE, &kFour[rank], &sum, 1, SYMM_DTYPE_F32).value);
      if (calls.size() % 2 == 0) calls.back().options = tree;
    }
    check(symm_batch(group.get(), calls.data(), calls.size(), nullptr, nullptr));
    EXPECT_EQ(sums, (std::array{kInRankOrder, kInTreeOrder, kInRankOrder, kInTreeOrder}));
  });
}

// Ranks whose orders differ are told so.
TEST(TreeOrder, DisagreementIsAMismatch) {
  as_threads(4, [](int rank, const Group& group) {
    const float mine = 1;
    float sum = 0;
    const symm_order_t order = rank == 2 ? SYMM_ORDER_TREE : SYMM_ORDER_RANKS;
    expect_failed(symm_allreduce(group.get(), &mine, &sum, 1, SYMM_DTYPE_F32, SYMM_OP_SUM,
                      ordered(order), nullptr),
        SYMM_ERR_MISMATCH, {"allreduce(f32, sum, count 1, in tree order)"});
  });
}

// ---- a product of matrices, shared by some ranks

constexpr size_t kTall = 5;
constexpr size_t kWide = 33;
constexpr size_t kInner = 512;
constexpr size_t kBlock = 32;

float element_of(size_t seed, size_t i) {
  const auto random = static_cast<uint32_t>((i + seed) * 2'654'435'761U);
  return static_cast<float>(random >> 8) * 0x1p-24F - 0.5F;
}

// The tree of the blocks first .. last-1 of the inner dimension, a power of two of blocks.
std::vector<float> product(size_t first, size_t last) {
  std::vector<float> sums(kTall * kWide);
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

TEST(TreeOrder, HasTheSameBitsHoweverManyRanksShareTheWork) {
  constexpr size_t kBlocks = kInner / kBlock;
  const std::vector<float> right = product(0, kBlocks);
  size_t differing = 0;
  for (const size_t size : {size_t{1}, size_t{2}, size_t{4}, size_t{8}, size_t{16}}) {
    as_threads(static_cast<int>(size), [&](int rank, const Group& group) {
      const size_t share = kBlocks / size;
      const auto first = static_cast<size_t>(rank) * share;
      const std::vector<float> mine = product(first, first + share);
      std::vector<float> sums(mine.size());
      const auto sum = [&](symm_order_t order) {
        check(symm_allreduce(group.get(), mine.data(), sums.data(), mine.size(), SYMM_DTYPE_F32,
            SYMM_OP_SUM, ordered(order), nullptr));
        return sums;
      };
      EXPECT_EQ(sum(SYMM_ORDER_TREE), right) << size << " ranks";
      if (sum(SYMM_ORDER_RANKS) != right && rank == 0) ++differing;
    });
  }
  EXPECT_EQ(differing, 3U) << "in rank order, sums of 4, 8 and 16 ranks have other bits";
}

// ---- between machines

// The sizes are of less than a line, of one round, and of more than one chunk of a chain.
void run_on_machines(const Group& group) {
  Trees trees(group, 140'000);
  const bool is_large = group.size() > 4;
  for_each_combination(std::tuple(std::array{SYMM_DTYPE_F32, SYMM_DTYPE_BF16, SYMM_DTYPE_F8E4M3},
                           kTreeOps, std::array<size_t, 4>{8, 1'000, 24'000, 140'000}),
      [&](symm_dtype_t dtype, symm_op_t op, size_t bytes) {
        if (is_large && (bytes == 8 || op == SYMM_OP_AVG)) return;
        trees.run(dtype, op, bytes);
      });
  const auto machine_of = [&](int rank) { return group.peer_info(rank).machine; };
  const int machines = group.info().machines;
  const int locals = group.size() / machines;
  bool is_line = group.size() % machines == 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    is_line = is_line && machine_of(rank) == rank / locals;
  }
  const bool has_subtrees = is_line && (locals & (locals - 1)) == 0;
  EXPECT_EQ(trees.done(SYMM_ALGORITHM_CHAIN) > 0, is_line);
  EXPECT_EQ(trees.done(SYMM_ALGORITHM_HIERARCHICAL) > 0, has_subtrees);
  EXPECT_GT(trees.done(SYMM_ALGORITHM_BRUCK), 0);
}

TEST_F(Multinode, HasTheBitsOfTrees) {
  SYMM_NOT_UNDER_TSAN("a minute; Multinode.MoveLargeBlocks goes the same ways");
  setenv("SYMM_HOST_TUNE", "gather=64,slices=64K,round=32K", 1);
  expect_on_all_layouts([](int, const Group& group) { run_on_machines(group); });
}

// The ranks of a machine are a subtree, or several, or the end of one and the begin of another.
TEST_F(Multinode, HasTheBitsOfTreesOfManyRanks) {
  SYMM_NOT_UNDER_TSAN("a minute; Multinode.MoveLargeBlocks goes the same ways");
  setenv("SYMM_HOST_TUNE", "gather=64,slices=64K,round=32K", 1);
  for (const char* layout : {"aaaabbbb", "aabbccdd", "aaabbb", "aaabbbccc", "aaaaabbbbb"}) {
    SCOPED_TRACE(layout);
    expect_on_machines(layout, [](int, const Group& group) { run_on_machines(group); });
  }
}

// A group with the flag, whose calls are made of parts there, too.
TEST_F(Multinode, ChoosesAndExplainsTrees) {
  const auto planned = [](const std::string& layout, size_t count) {
    return on_machines(layout, [&](int, const Group& group) {
      symm_group_options_t options = SYMM_GROUP_OPTIONS_INIT;
      options.flags = SYMM_GROUP_TREE_ORDER;
      const Group part = group.split(0, 0, options);
      std::vector<float> data(count, static_cast<float>(group.rank() + 1));
      symm_plan_info_t plan;
      const auto call =
          call_of(SYMM_COLLECTIVE_ALLREDUCE, data.data(), data.data(), count, SYMM_DTYPE_F32);
      check(plan_of(part.get(), call, nullptr, plan));
      check(run(part.get(), call, nullptr));
      EXPECT_EQ(data[count - 1], 10);
      return std::to_string(plan.algorithm) + " " + plan.reason;
    })[0];
  };
  const std::string small = planned("aabb", 10'000);
  EXPECT_EQ(small.substr(0, 3), "11 ") << small;
  EXPECT_NE(small.find("then machines do, in tree order"), std::string::npos) << small;
  EXPECT_EQ(planned("aabb", 1'000'000).substr(0, 2), "9 ");
  EXPECT_EQ(planned("aaab", 1'000'000).substr(0, 2), "3 ");
}
}  // namespace
}  // namespace support
