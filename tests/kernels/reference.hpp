// SPDX-License-Identifier: Apache-2.0
//
// What the kernels are compared with: one element at a time, with nothing in common with the code under test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/types.hpp"
#include "tests/support/element.hpp"

namespace symm::reference {

inline constexpr DType kDTypes[] = {DType::i8,  DType::u8,  DType::i16,  DType::u16,    DType::boolean,
                                    DType::i32, DType::u32, DType::i64,  DType::u64,    DType::f16,
                                    DType::f32, DType::f64, DType::bf16, DType::f8e4m3, DType::f8e5m2};
inline constexpr Op kOps[] = {Op::sum, Op::avg, Op::min, Op::max, Op::prod};

inline support::FloatFormat format_of(DType dtype) { return support::format_of(static_cast<int32_t>(dtype)); }
inline uint64_t load_bits(DType dtype, const std::byte* element) {
  return support::load_bits(static_cast<int32_t>(dtype), element);
}
inline void store_bits(DType dtype, uint64_t bits, std::byte* element) {
  support::store_bits(static_cast<int32_t>(dtype), bits, element);
}
inline float decode_small(DType dtype, uint64_t code) { return support::decode(static_cast<int32_t>(dtype), code); }
inline uint64_t encode_small(DType dtype, float value) { return support::encode(static_cast<int32_t>(dtype), value); }
bool is_nan(DType dtype, uint64_t bits);

// The reduction of one element over ranks 0, 1, ...
uint64_t reduce(DType dtype, Op op, const std::vector<uint64_t>& operands);

// Same bits, or both NaN.
bool same(DType dtype, uint64_t a, uint64_t b);
bool same(DType dtype, const std::byte* a, const std::byte* b, size_t count);
// Where a and b differ first, for a test's message.
std::string difference(DType dtype, const std::byte* got, const std::byte* expected, size_t count);

}  // namespace symm::reference
