// An infinite operand gives an infinite result, in groups of every size and by every algorithm, and
// only finite operands of f8 saturate. So who looks for an overflow finds it.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "symm/fused.h"
#include "symm/symm.h"
#include "tests/support/combinations.hpp"
#include "tests/support/machines.hpp"
#include "tools/bench/reference.hpp"

namespace support {
namespace {
using namespace symm::reference;

constexpr symm_dtype_t kInfinite[] = {
    SYMM_DTYPE_F8E5M2, SYMM_DTYPE_F16, SYMM_DTYPE_BF16, SYMM_DTYPE_F32, SYMM_DTYPE_F64};
constexpr symm_op_t kOps[] = {SYMM_OP_SUM, SYMM_OP_AVG, SYMM_OP_MIN, SYMM_OP_MAX, SYMM_OP_PROD};

// Element `i` of a rank's operand, for five patterns in turn.
uint64_t operand(symm_dtype_t dtype, int rank, int size, size_t i) {
  const FloatFormat format = format_of(dtype);
  const uint64_t one = static_cast<uint64_t>(format.bias) << format.mantissa_bits;
  const uint64_t infinity = beyond(dtype);
  const bool is_last = rank == size - 1;
  switch (i % 5) {
    case 0: return rank == 0 ? infinity : one;
    case 1: return is_last ? sign_bit(dtype) | infinity : one;
    case 2: return is_last ? sign_bit(dtype) | infinity : infinity;
    case 3: return infinity - 1;  // the largest finite number
    default: return infinity;
  }
}

bool is_nan(symm_dtype_t dtype, uint64_t bits) {
  return (bits & (sign_bit(dtype) - 1)) > beyond(dtype);
}

// What `op` makes of element `i`, by hand: rank 0 is alone if `size` is 1.
std::string by_hand(symm_dtype_t dtype, symm_op_t op, int size, size_t i) {
  const bool is_alone = size == 1;
  const bool is_min = op == SYMM_OP_MIN;
  const bool is_max = op == SYMM_OP_MAX;
  const bool is_f8 = dtype == SYMM_DTYPE_F8E5M2;
  const bool is_average_of_few =
      op == SYMM_OP_AVG && size_of(dtype) < 4 && dtype != SYMM_DTYPE_BF16;

  switch (i % 5) {
    case 0: return is_min && !is_alone ? "one" : "inf";
    case 1: return is_max && !is_alone ? "one" : "-inf";
    case 2:
      if (is_alone || is_min || op == SYMM_OP_PROD) return "-inf";
      return is_max ? "inf" : "nan";
    case 3: return is_alone || is_min || is_max || is_f8 || is_average_of_few ? "most" : "inf";
    default: return "inf";
  }
}

std::string said(symm_dtype_t dtype, uint64_t bits) {
  const FloatFormat format = format_of(dtype);
  const uint64_t magnitude = bits & (sign_bit(dtype) - 1);
  if (is_nan(dtype, bits)) return "nan";
  const std::string sign = magnitude != bits ? "-" : "";
  if (magnitude == beyond(dtype)) return sign + "inf";
  if (magnitude == beyond(dtype) - 1) return sign + "most";
  const uint64_t one = static_cast<uint64_t>(format.bias) << format.mantissa_bits;
  return magnitude == one ? sign + "one" : std::to_string(bits);
}

void expect_stays(const Group& group, symm_algorithm_t algorithm, symm_dtype_t dtype, symm_op_t op,
    size_t count, int& done) {
  const size_t element = size_of(dtype);
  std::vector<std::byte> send(count * element);
  std::vector<std::byte> recv(count * element);
  for (size_t i = 0; i < count; ++i) {
    store_bits(dtype, operand(dtype, group.rank(), group.size(), i), &send[i * element]);
  }

  const symm_status_t status = symm_allreduce(
      group.get(), send.data(), recv.data(), count, dtype, op, forced(algorithm), nullptr);
  if (status != SYMM_OK) {
    EXPECT_NE(algorithm, SYMM_ALGORITHM_AUTO) << symm_last_error();
    EXPECT_EQ(status, SYMM_ERR_INVALID_ARGUMENT) << symm_last_error();
    return;
  }

  ++done;
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(said(dtype, static_cast<uint64_t>(load_bits(dtype, &recv[i * element]))),
        by_hand(dtype, op, group.size(), i))
        << "dtype " << dtype << ", op " << op << ", algorithm " << algorithm << ", element " << i
        << " of " << count << ", " << group.size() << " ranks";
  }
}

void expect_stays(const Group& group) {
  int done = 0;
  const std::array<symm_algorithm_t, 6> algorithms = {SYMM_ALGORITHM_AUTO, SYMM_ALGORITHM_LL,
      SYMM_ALGORITHM_ONE_SHOT, SYMM_ALGORITHM_TWO_SHOT, SYMM_ALGORITHM_TWO_SHOT_STAGED,
      SYMM_ALGORITHM_CHAIN};
  for_each_combination(
      std::tuple(algorithms, std::span(kInfinite), std::span(kOps), std::array<size_t, 2>{5, 4099}),
      [&](symm_algorithm_t algorithm, symm_dtype_t dtype, symm_op_t op, size_t count) {
        expect_stays(group, algorithm, dtype, op, count, done);
      });
  if (testing::Test::HasFatalFailure()) return;

  EXPECT_GT(done, 100);
}

TEST(Infinity, StaysByEveryAlgorithmInGroupsOfEverySize) {
  for (const int size : {1, 2, 3}) {
    as_threads(size, [](int, const Group& group) { expect_stays(group); });
  }
}

TEST_F(Multinode, InfinityStays) {
  for (const char* layout : {"ab", "aabb"}) {
    expect_on_machines(layout, [](int, const Group& group) { expect_stays(group); });
  }
}

// Products of finite f8 beyond what f32 holds saturate, and are 0 after a factor of 0, also
// where machines multiply the products of machines.
void expect_products(const Group& group, symm_algorithm_t algorithm) {
  struct Row {
    symm_dtype_t dtype;
    uint8_t most;
  };

  for (const Row& row : {Row{SYMM_DTYPE_F8E4M3, 0x7E}, Row{SYMM_DTYPE_F8E5M2, 0x7B}}) {
    const bool is_last = group.rank() == group.size() - 1;
    const uint8_t send[] = {row.most, is_last ? uint8_t{0} : row.most};
    uint8_t recv[2] = {};
    check(symm_allreduce(
        group.get(), send, recv, 2, row.dtype, SYMM_OP_PROD, forced(algorithm), nullptr));
    EXPECT_EQ(recv[0], row.most) << "dtype " << row.dtype << ", algorithm " << algorithm;
    EXPECT_EQ(recv[1], 0) << "dtype " << row.dtype << ", algorithm " << algorithm;
  }
}

TEST(Infinity, IsNoProductOfFiniteF8) {
  as_threads(16, [](int, const Group& group) { expect_products(group, SYMM_ALGORITHM_AUTO); });
}

TEST_F(Multinode, InfinityIsNoProductOfFiniteF8) {
  expect_on_machines("aaaaaaaabbbbbbbb", [](int, const Group& group) {
    for (const symm_algorithm_t algorithm :
        {SYMM_ALGORITHM_AUTO, SYMM_ALGORITHM_CHAIN, SYMM_ALGORITHM_HIERARCHICAL}) {
      expect_products(group, algorithm);
    }
  });
}

// A factor that is infinite, and what is infinite in the rows of a norm, is not hidden by f8.
TEST(Infinity, StaysWithAFactorAndANorm) {
  as_threads(2, [](int rank, const Group& group) {
    const uint8_t ones[] = {0x38, 0x3C};  // of f8e4m3 and f8e5m2
    uint8_t results[2] = {};
    const float infinity = std::numeric_limits<float>::infinity();
    auto options = forced(SYMM_ALGORITHM_AUTO);
    options.value.scale_position = SYMM_SCALE_BEFORE;
    options.value.scale_pointer = &infinity;
    check(symm_allreduce(
        group.get(), &ones[0], &results[0], 1, SYMM_DTYPE_F8E4M3, SYMM_OP_SUM, options, nullptr));
    check(symm_allreduce(
        group.get(), &ones[1], &results[1], 1, SYMM_DTYPE_F8E5M2, SYMM_OP_SUM, options, nullptr));
    EXPECT_EQ(results[0], 0x7F) << "NaN: f8e4m3 has no infinity";
    EXPECT_EQ(results[1], 0x7C);

    // The third weight is infinite, and the fourth so large that f8 saturates.
    alignas(16) float rows[8];
    alignas(16) float weight[8];
    for (int i = 0; i < 8; ++i) {
      rows[i] = rank == 0 ? 1 : 0;
      weight[i] = i == 3 ? 1e30F : 1;
    }
    weight[2] = infinity;

    alignas(16) uint8_t quantised[8] = {};
    const float scale = 1;
    symm_rmsnorm_call_t norm = SYMM_RMSNORM_CALL_INIT;
    norm.weight = weight;
    norm.quant_out = quantised;
    norm.scale_in = &scale;
    check(symm_allreduce_rmsnorm(group.get(), rows, 1, 8, SYMM_DTYPE_F32, &norm, nullptr, nullptr));
    EXPECT_EQ(quantised[1], 0x38);
    EXPECT_EQ(quantised[2], 0x7F);
    EXPECT_EQ(quantised[3], 0x7E);
  });
}
}  // namespace
}  // namespace support
