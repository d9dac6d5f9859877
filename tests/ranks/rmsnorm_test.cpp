// RMSNorm of a rank that is alone: the rows are their own sums, and are normalised where they lie.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "symm/symm.h"
#include "tests/support/group.hpp"

namespace support {
namespace {
using Words = std::vector<uint16_t>;  // of bf16

constexpr size_t kHidden = 256;
constexpr uint16_t kMinusZero = 0x8000;  // the sum of any number and this one is that number

struct Results {
  Words residual;
  Words norm;
  std::vector<uint8_t> quantised;
  std::vector<float> scales;
  bool operator==(const Results&) const = default;
};

// Finite numbers, zeros of both signs, infinities and NaN.
Words rows_of(size_t tokens, uint32_t seed) {
  Words rows(tokens * kHidden);
  uint32_t random = seed;
  for (uint16_t& word : rows) {
    random = random * 1664525 + 1013904223;
    word = static_cast<uint16_t>(0x3E00 + (random >> 24) + (random & 0x8000));
  }
  rows.front() = 0;
  rows[1] = kMinusZero;
  if (tokens > 1) rows[kHidden] = 0x7F80;
  if (tokens > 2) rows[2 * kHidden] = 0x7FC1;
  return rows;
}

// The results where `send` is the operand of this rank. In place, they lie where operands do.
Results normalise(const Group& group, Words send, size_t tokens, bool in_place) {
  const Words weight = rows_of(1, 7);
  Results results{rows_of(tokens, 5), Words(send.size()), std::vector<uint8_t>(send.size()), {}};
  results.scales.resize(tokens);
  Words& norm_out = in_place ? send : results.norm;
  const Words residual_in = results.residual;

  auto norm = normed(weight.data(), norm_out.data(), 1e-5, SYMM_DTYPE_BF16, SYMM_QUANT_SCALE_TOKEN);
  norm.value.residual_in = in_place ? results.residual.data() : residual_in.data();
  norm.value.residual_out = results.residual.data();
  norm.value.quant_out = results.quantised.data();
  norm.value.scale_out = results.scales.data();
  check(symm_allreduce_rmsnorm(
      group.get(), send.data(), tokens, kHidden, SYMM_DTYPE_BF16, norm, nullptr, nullptr));
  if (in_place) results.norm = send;
  return results;
}

// As many tokens as scratch does not hold at once are normalised, too. What two ranks sum, of
// which one has only negative zeros, are the rows of the other one.
TEST(RmsNormOfOneRank, HasTheBitsOfTwoOfWhichOneAddsNothing) {
  for (const size_t tokens : {size_t{1}, size_t{3}, size_t{5000}}) {
    Results right;
    as_threads(2, [&](int rank, const Group& group) {
      const Words nothing(tokens * kHidden, kMinusZero);
      const Results results =
          normalise(group, rank == 0 ? rows_of(tokens, 3) : nothing, tokens, false);
      if (rank == 0) right = results;
    });
    as_threads(1, [&](int, const Group& group) {
      EXPECT_TRUE(normalise(group, rows_of(tokens, 3), tokens, false) == right) << tokens;
      EXPECT_TRUE(normalise(group, rows_of(tokens, 3), tokens, true) == right) << tokens;
    });
  }
}

TEST(RmsNormOfOneRank, IsCountedAndFailsWithItsGroup) {
  as_threads(1, [](int, const Group& group) {
    normalise(group, rows_of(2, 3), 2, false);
    EXPECT_EQ(group.collective_stats(SYMM_COLLECTIVE_ALLREDUCE_RMSNORM).calls, 1U);
    group.abort("of a test");
    expect_failure(
        SYMM_ERR_ABORTED, {"of a test"}, [&] { normalise(group, rows_of(2, 3), 2, false); });
  });
}
}  // namespace
}  // namespace support
