// Reductions with a factor, of narrow floats into f32, and of f32 into narrow floats: every
// algorithm has the bits of a reference that takes one element at a time.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <ostream>
#include <tuple>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "tests/support/combinations.hpp"
#include "tests/support/machines.hpp"
#include "tools/bench/reference.hpp"

namespace support {
namespace {
using namespace symm::reference;

struct Scaled {
  symm_collective_t what;
  symm_dtype_t dtype;
  symm_op_t op;
  symm_scale_t position;
  bool by_pointer;
  symm_dtype_t result;
  size_t count;
  bool symmetric;
};

std::ostream& operator<<(std::ostream& out, const Scaled& c) {
  return out << "collective " << c.what << ", dtype " << c.dtype << ", op " << c.op << ", position "
             << c.position << (c.by_pointer ? " by pointer" : "") << ", result " << c.result
             << ", count " << c.count << (c.symmetric ? ", symmetric" : "");
}

constexpr float kFactors[] = {0.3F, -1.7F, 1e-3F, 0.7F};  // by rank, where read by pointer

// The factor where it is passed by value. For f32 it is rounded; f64 can have larger factors.
double factor_of(symm_dtype_t dtype) { return dtype == SYMM_DTYPE_F64 ? 1e200 : 0.1; }

constexpr size_t kPeriod = 997;

// Element `i` of a rank's operand. Each rank and type has kPeriod numbers, again and again, because
// encoding takes long.
uint64_t operand(const Scaled& c, int rank, size_t i) {
  static thread_local std::map<std::pair<symm_dtype_t, int>, std::vector<uint64_t>> all;
  std::vector<uint64_t>& known = all[{c.dtype, rank}];
  for (size_t k = known.size(); k < kPeriod; ++k) {
    const double x = std::sin(static_cast<double>(k) * 12.9898 + rank) * 40;
    const auto single = static_cast<float>(x);
    switch (c.dtype) {
      case SYMM_DTYPE_F64: known.push_back(to_bits(x)); break;
      case SYMM_DTYPE_F32: known.push_back(to_bits(single)); break;
      default: known.push_back(encode(c.dtype, single)); break;
    }
  }

  return known[i % kPeriod];
}

// Element i of what `rank` gets is that of element `i` of all operands.
uint64_t expected(const Scaled& c, int rank, int size, size_t i) {
  std::vector<symm::reference::Bits> operands;
  for (int r = 0; r < size; ++r) {
    operands.push_back(operand(c, r, i));
  }
  const auto factor = [&](int r) {
    return c.by_pointer ? static_cast<double>(kFactors[r]) : factor_of(c.dtype);
  };
  return reduce_scaled(c.dtype, c.op, operands, c.result, c.position, factor, rank);
}

// Compares a call by every algorithm that takes it; returns the number of these algorithms.
int compare(const Group& group, const Block& block, const Scaled& c) {
  SCOPED_TRACE(testing::Message() << c << ", rank " << group.rank());
  const int rank = group.rank();
  const int size = group.size();
  const size_t blocks = c.what == SYMM_COLLECTIVE_REDUCE_SCATTER ? static_cast<size_t>(size) : 1;
  const bool gets = c.what != SYMM_COLLECTIVE_REDUCE || rank == 1 % size;
  const size_t element = size_of(c.result);
  std::vector<std::byte> private_send(c.count * blocks * size_of(c.dtype));
  std::vector<std::byte> private_recv(c.count * element);
  std::byte* const send = c.symmetric ? block.at<std::byte>(rank) : private_send.data();
  std::byte* const recv =
      c.symmetric ? block.at<std::byte>(rank) + (size_t{8} << 20) : private_recv.data();
  for (size_t i = 0; i < c.count * blocks; ++i) {
    store_bits(c.dtype, operand(c, rank, i), send + i * size_of(c.dtype));
  }
  std::vector<std::byte> right(c.count * element);
  const size_t first = blocks == 1 ? 0 : static_cast<size_t>(rank) * c.count;
  for (size_t i = 0; i < c.count; ++i) {
    if (i < kPeriod) {
      store_bits(c.result, expected(c, rank, size, first + i), &right[i * element]);
    } else {
      std::memcpy(&right[i * element], &right[(i - kPeriod) * element], element);
    }
  }

  int done = 0;
  const float factor = kFactors[rank];
  for (const symm_algorithm_t algorithm : {SYMM_ALGORITHM_AUTO, SYMM_ALGORITHM_LL,
           SYMM_ALGORITHM_ONE_SHOT, SYMM_ALGORITHM_TWO_SHOT, SYMM_ALGORITHM_TWO_SHOT_STAGED}) {
    auto options = forced(algorithm);
    options.value.scale_position = c.position;
    if (c.position != SYMM_SCALE_NONE && c.by_pointer) options.value.scale_pointer = &factor;
    if (c.position != SYMM_SCALE_NONE && !c.by_pointer) options.value.scale = factor_of(c.dtype);
    if (c.result != c.dtype) options.value.result_dtype = c.result;
    std::memset(recv, 0x5A, right.size());
    const auto call = call_of(c.what, send, recv, c.count, c.dtype, c.op, 1 % size);
    const symm_status_t status = run(group.get(), call, options);
    symm_plan_info_t plan;
    EXPECT_EQ(plan_of(group.get(), call, options, plan), status);
    if (status != SYMM_OK) {
      EXPECT_NE(algorithm, SYMM_ALGORITHM_AUTO) << symm_last_error();
      EXPECT_EQ(status, SYMM_ERR_INVALID_ARGUMENT) << symm_last_error();
      continue;
    }
    ++done;
    if (gets) {
      for (size_t i = 0; i < c.count && std::memcmp(recv, right.data(), right.size()) != 0; ++i) {
        EXPECT_EQ(load_bits(c.result, recv + i * element), load_bits(c.result, &right[i * element]))
            << "algorithm " << algorithm << ", element " << i;
        if (testing::Test::HasFailure()) return done;
      }
    }
  }
  return done;
}

void run_scaled(const Group& group) {
  const Block block = allocate(group, size_t{16} << 20);
  int done = 0;
  unsigned turn = 0;
  const std::array<symm_collective_t, 3> reductions = {
      SYMM_COLLECTIVE_ALLREDUCE, SYMM_COLLECTIVE_REDUCE_SCATTER, SYMM_COLLECTIVE_REDUCE};
  const std::array<symm_dtype_t, 6> floats = {SYMM_DTYPE_F16, SYMM_DTYPE_BF16, SYMM_DTYPE_F8E4M3,
      SYMM_DTYPE_F8E5M2, SYMM_DTYPE_F32, SYMM_DTYPE_F64};
  const std::array<symm_scale_t, 3> scales = {SYMM_SCALE_NONE, SYMM_SCALE_BEFORE, SYMM_SCALE_AFTER};
  for_each_combination(std::tuple(reductions, floats, scales, std::array{false, true},
                           std::array<size_t, 5>{0, 1, 7, 13, 1021}),
      [&](symm_collective_t what, symm_dtype_t dtype, symm_scale_t position, bool changes_type,
          size_t count) {
        if (changes_type && dtype == SYMM_DTYPE_F64) return;

        const symm_op_t ops[] = {SYMM_OP_SUM, SYMM_OP_AVG, SYMM_OP_MAX};
        ++turn;
        symm_dtype_t result = dtype;
        if (changes_type) result = dtype == SYMM_DTYPE_F32 ? floats[turn % 4] : SYMM_DTYPE_F32;
        done += compare(group, block,
            {what, dtype, ops[turn % 3], position, turn % 2 == 0, result, count, turn % 5 < 3});
      });

  // More than what is wide at a time.
  for_each_combination(std::tuple(reductions, std::array{false, true}),
      [&](symm_collective_t what, bool changes_type) {
        done += compare(group, block,
            {what, SYMM_DTYPE_BF16, SYMM_OP_SUM, SYMM_SCALE_BEFORE, false,
                changes_type ? SYMM_DTYPE_F32 : SYMM_DTYPE_BF16, 300'007, false});
        done += compare(group, block,
            {what, SYMM_DTYPE_F32, SYMM_OP_SUM, changes_type ? SYMM_SCALE_NONE : SYMM_SCALE_AFTER,
                false, SYMM_DTYPE_BF16, 300'007, false});
      });

  EXPECT_GT(done, 1000);
}

TEST(ScaledReductions, BitsAreThoseOfTheReference) {
  for (const int size : {1, 3}) {
    as_threads(size, [](int, const Group& group) { run_scaled(group); });
  }
}

TEST_F(Multinode, HasTheBitsOfScaledReductions) {
  SYMM_NOT_UNDER_TSAN("half a minute");
  expect_on_all_layouts([](int, const Group& group) { run_scaled(group); });
}
}  // namespace
}  // namespace support
