// SPDX-License-Identifier: Apache-2.0
//
// Names of the constants of symm.h, and the arithmetic that results are checked against: written here again, simply, so
// that a defect of the library cannot hide in shared code.
#pragma once

#include <symm/symm.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace symm::tool {

template <typename Value>
struct Named {
  const char* name;
  Value value;
};

const std::vector<Named<symm_dtype_t>>& dtypes();
const std::vector<Named<symm_op_t>>& ops();
const std::vector<Named<symm_algorithm_t>>& algorithms();

template <typename Value>
std::string name_of(const std::vector<Named<Value>>& list, Value value) {
  for (const auto& entry : list)
    if (entry.value == value) return entry.name;
  return "unknown";
}

size_t size_of(symm_dtype_t dtype);

// Floating-point formats of 8 and 16 bits.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  // else the largest exponent is an ordinary one, but for NaN (all ones)
  bool saturates;     // results beyond the largest number become it, instead of infinity
};
SmallFloat small_float(symm_dtype_t dtype);
float decode(const SmallFloat& format, uint32_t code);
uint32_t encode(const SmallFloat& format, float value);  // to nearest, ties to even

// One element of what `op` over the ranks' elements gives, in rank order; both in the type's own bytes.
void combine(symm_dtype_t dtype, symm_op_t op, const std::vector<const std::byte*>& inputs, std::byte* out);

}  // namespace symm::tool
