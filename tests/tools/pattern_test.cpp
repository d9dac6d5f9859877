// A check that cannot fail is none: these show that wrong results are counted.
#include "tests/support/test.hpp"
#include "tools/bench/dtype.hpp"
#include "tools/bench/quantile.hpp"
#include "tools/bench/result.hpp"

namespace symm::tool { namespace {
std::vector<std::byte> data(const Pattern& pattern, symm_dtype_t dtype, int rank, size_t first, size_t count) {
  std::vector<std::byte> out(count * size_of(dtype));
  pattern.write(out.data(), rank, first, count);
  return out;
}

TEST(Pattern, KnowsItsOwnDataAndNoOther) {
  const Pattern pattern(SYMM_DTYPE_F32, SYMM_OP_SUM, 3);
  const size_t count = 3 * Pattern::period + 17;
  auto seen = data(pattern, SYMM_DTYPE_F32, 1, 5, count);
  EXPECT_EQ(pattern.count_wrong(seen.data(), 1, 5, count), 0U);
  EXPECT_GT(pattern.count_wrong(seen.data(), 2, 5, count), count / 2);
  EXPECT_GT(pattern.count_wrong(seen.data(), 1, 6, count), count / 2);
  EXPECT_GT(pattern.count_wrong(seen.data(), 1, 5 + 4096, count), count / 2) << "data from another slice must show";
  seen[4 * 100] ^= std::byte{1};
  seen[4 * (count - 1) + 3] ^= std::byte{1};
  EXPECT_EQ(pattern.count_wrong(seen.data(), 1, 5, count), 2U);
}

class Reductions : public testing::TestWithParam<symm_dtype_t> {};

TEST_P(Reductions, MatchElementByElement) {
  const symm_dtype_t dtype = GetParam();
  const size_t element = size_of(dtype);
  for (const auto& op : ops()) {
    const Pattern pattern(dtype, op.value, 4);
    constexpr size_t count = 5000;
    std::vector<std::vector<std::byte>> inputs;
    for (int rank = 0; rank < 4; ++rank) inputs.push_back(data(pattern, dtype, rank, 9, count));
    std::vector<std::byte> out(count * element);
    for (size_t i = 0; i < count; ++i) {
      std::vector<uint64_t> one;
      for (const auto& input : inputs) one.push_back(reference::load_bits(dtype, &input[i * element]));
      reference::store_bits(dtype, reference::reduce(dtype, op.value, one), &out[i * element]);
    }
    EXPECT_EQ(pattern.count_wrong_reduced(out.data(), 9, count), 0U) << op.name;
    out[0] ^= std::byte{1};
    EXPECT_EQ(pattern.count_wrong_reduced(out.data(), 9, count), 1U) << op.name;
  }
}

// As SYMM_ALGORITHM_HIERARCHICAL combines: (r0 op r1) op (r2 op r3), in the precision of sums, rounded once.
TEST(Pattern, HasElementsForAnyOrder) {
  for (const symm_op_t op : {SYMM_OP_SUM, SYMM_OP_PROD, SYMM_OP_AVG}) {
    const auto wrong = [op](bool any_order) {
      const Pattern pattern(SYMM_DTYPE_F32, op, 4, any_order);
      std::vector<float> of[4], out;
      for (int rank = 0; rank < 4; ++rank) {
        of[rank].resize(Pattern::period);
        pattern.write(reinterpret_cast<std::byte*>(of[rank].data()), rank, 0, Pattern::period);
      }
      for (size_t i = 0; i < Pattern::period; ++i) {
        if (op == SYMM_OP_PROD) out.push_back((of[0][i] * of[1][i]) * (of[2][i] * of[3][i]));
        else out.push_back(((of[0][i] + of[1][i]) + (of[2][i] + of[3][i])) / (op == SYMM_OP_AVG ? 4 : 1));
      }
      return pattern.count_wrong_reduced(reinterpret_cast<std::byte*>(out.data()), 0, Pattern::period);
    };
    EXPECT_EQ(wrong(true), 0U) << op;
    EXPECT_GT(wrong(false), Pattern::period / 16) << op << ": another order must show";
  }
}

INSTANTIATE_TEST_SUITE_P(All, Reductions,
    testing::Values(SYMM_DTYPE_I8, SYMM_DTYPE_I16, SYMM_DTYPE_U16, SYMM_DTYPE_BOOL, SYMM_DTYPE_I32, SYMM_DTYPE_I64, SYMM_DTYPE_U8,
        SYMM_DTYPE_U32, SYMM_DTYPE_U64, SYMM_DTYPE_F16, SYMM_DTYPE_F32, SYMM_DTYPE_F64, SYMM_DTYPE_BF16, SYMM_DTYPE_F8E4M3,
        SYMM_DTYPE_F8E5M2));

TEST(BenchOptions, Sizes) {
  BenchOptions options;
  options.begin = 8;
  options.end = 100;
  EXPECT_EQ(sizes(options), (std::vector<uint64_t>{8, 16, 32, 64}));
  options.factor = 1.1;
  options.end = 10;
  EXPECT_EQ(sizes(options), (std::vector<uint64_t>{8, 9}));
  options.iterations = 3;
  EXPECT_EQ(iterations_for(options, 8), 3);
  options.iterations = 0;
  EXPECT_GT(iterations_for(options, 8), iterations_for(options, uint64_t{1} << 30));
}

TEST(BenchResult, BusFactorsOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(SYMM_COLLECTIVE_ALLREDUCE, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(SYMM_COLLECTIVE_REDUCE_SCATTER, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(SYMM_COLLECTIVE_ALLGATHER, 8), 0.875);
  EXPECT_DOUBLE_EQ(bus_factor(SYMM_COLLECTIVE_ALLTOALL, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(SYMM_COLLECTIVE_BROADCAST, 8), 1);
  EXPECT_DOUBLE_EQ(bus_factor(SYMM_COLLECTIVE_REDUCE, 8), 1);
}

TEST(BenchResult, Quantiles) {
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 0), 1);
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 1), 3);
  EXPECT_DOUBLE_EQ(quantile({5}, 0.99), 5);
}
}}  // namespace symm::tool
