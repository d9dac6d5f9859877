// SPDX-License-Identifier: Apache-2.0
//
// Integers as elements of a data type, bit by bit, without any arithmetic of that type.
#pragma once

#include <symm/symm.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace behaviours {

inline size_t size_of(symm_dtype_t dtype) { return static_cast<size_t>(dtype & 0xff) / 8; }

struct FloatFormat {
  int mantissa_bits;
  int bias;
};

inline FloatFormat format_of(symm_dtype_t dtype) {
  switch (dtype) {
    case SYMM_DTYPE_F16: return {10, 15};
    case SYMM_DTYPE_F32: return {23, 127};
    case SYMM_DTYPE_F64: return {52, 1023};
    case SYMM_DTYPE_BF16: return {7, 127};
    case SYMM_DTYPE_F8E4M3: return {3, 7};
    case SYMM_DTYPE_F8E5M2: return {2, 15};
    default: return {0, 0};
  }
}

inline uint64_t encode(symm_dtype_t dtype, int64_t value) {
  const size_t bits = size_of(dtype) * 8;
  const FloatFormat format = format_of(dtype);
  if (format.bias == 0) return static_cast<uint64_t>(value) & (UINT64_MAX >> (64 - bits));
  if (value == 0) return 0;
  const auto magnitude = static_cast<uint64_t>(value < 0 ? -value : value);
  const auto k = static_cast<int>(std::bit_width(magnitude)) - 1;
  const uint64_t rest = magnitude ^ (uint64_t{1} << k);
  const int shift = format.mantissa_bits - k;
  if (shift < 0 && (rest & ((uint64_t{1} << -shift) - 1)) != 0) throw std::runtime_error("the table expects an inexact value");
  const uint64_t fraction = shift >= 0 ? rest << shift : rest >> -shift;
  const uint64_t sign = value < 0 ? uint64_t{1} << (bits - 1) : 0;
  return sign | static_cast<uint64_t>(k + format.bias) << format.mantissa_bits | fraction;
}

// Both return the place of the next element. Little endian, as every machine that symm runs on.
inline std::byte* store(std::byte* to, symm_dtype_t dtype, uint64_t bits) {
  std::memcpy(to, &bits, size_of(dtype));
  return to + size_of(dtype);
}
inline const std::byte* load(const std::byte* from, symm_dtype_t dtype, uint64_t& bits) {
  bits = 0;
  std::memcpy(&bits, from, size_of(dtype));
  return from + size_of(dtype);
}

}  // namespace behaviours
