// A quantised wire as symm.h defines it, one element at a time: what calls are compared with.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "symm/symm.h"
#include "tools/bench/reference.hpp"

namespace support {
inline float most_of_codes(symm_dtype_t wire) {
  if (wire == SYMM_DTYPE_I8) return 127;
  return wire == SYMM_DTYPE_F8E4M3 ? 448 : 57344;
}

// What is left of a number when it was encoded and decoded.
inline float through_code(symm_dtype_t wire, float x) {
  if (wire == SYMM_DTYPE_I8) return static_cast<float>(static_cast<int>(std::nearbyint(x)));
  return symm::reference::decode(wire, symm::reference::encode(wire, x));
}

// What is left of numbers, and in `amax`, if it is given, the largest magnitude of the group of
// each.
inline std::vector<float> through_wire(const std::vector<float>& numbers, symm_dtype_t wire,
    size_t group, std::vector<float>* amax = nullptr) {
  std::vector<float> left(numbers.size());
  if (amax != nullptr) amax->assign(numbers.size(), 0);
  for (size_t first = 0; first < numbers.size(); first += group) {
    const size_t end = std::min(numbers.size(), first + group);
    float most = 0;
    bool is_finite = true;
    for (size_t i = first; i < end; ++i) {
      is_finite = is_finite && std::isfinite(numbers[i]);
      most = std::max(most, std::fabs(numbers[i]));
    }

    const float scale = std::max(most / most_of_codes(wire), 0x1p-100F);
    const float inverse = 1 / scale;
    for (size_t i = first; i < end; ++i) {
      const float scaled = numbers[i] * inverse;
      left[i] =
          is_finite ? through_code(wire, scaled) * scale : std::numeric_limits<float>::quiet_NaN();
      if (amax != nullptr) (*amax)[i] = most;
    }
  }
  return left;
}

inline float sum_in_order(const std::vector<float>& numbers, bool in_tree) {
  if (!in_tree || numbers.size() < 3) {
    float all = numbers[0];
    for (size_t i = 1; i < numbers.size(); ++i) {
      all += numbers[i];
    }
    return all;
  }
  const size_t left = std::bit_floor(numbers.size() - 1);
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(left);
  return sum_in_order({numbers.begin(), middle}, true) +
         sum_in_order({middle, numbers.end()}, true);
}

struct WireCase {
  symm_dtype_t dtype;
  symm_dtype_t wire;
  int32_t group;
  symm_op_t op;
  bool in_tree;
};

// The sums of the operands of all ranks, as they are when they were decoded, and not yet rounded.
inline std::vector<float> sums_by_wire(
    const WireCase& c, const std::vector<std::vector<float>>& operands) {
  const auto group = static_cast<size_t>(c.group);
  std::vector<std::vector<float>> left;
  for (const std::vector<float>& operand : operands) {
    left.push_back(through_wire(operand, c.wire, group));
  }

  std::vector<float> sums(operands[0].size());
  std::vector<float> column(operands.size());
  for (size_t i = 0; i < sums.size(); ++i) {
    for (size_t rank = 0; rank < operands.size(); ++rank) {
      column[rank] = left[rank][i];
    }
    sums[i] = sum_in_order(column, c.in_tree);
    if (c.op == SYMM_OP_AVG) sums[i] /= static_cast<float>(operands.size());
  }
  return through_wire(sums, c.wire, group);
}
}  // namespace support
