// SPDX-License-Identifier: Apache-2.0
//
// Elements of a data type as bits, by the codes of symm.h. Small floats are decoded by formula and encoded by a search for the
// nearest value, with nothing in common with the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace support {

inline size_t size_of(int32_t dtype) { return static_cast<size_t>(dtype & 0xff) / 8; }

struct FloatFormat {
  int mantissa_bits;
  int bias;  // 0: integers
  bool has_infinity;
};
FloatFormat format_of(int32_t dtype);

// Floats of 8 and 16 bits: the exact value of a code, and the code nearest to a value (ties to even; those of 8 bits saturate).
float decode(int32_t dtype, uint64_t code);
uint64_t encode(int32_t dtype, float value);
// Of any data type; throws where the type has no such number.
uint64_t encode_integer(int32_t dtype, int64_t value);

// Little endian, as every machine that symm runs on.
inline void store_bits(int32_t dtype, uint64_t bits, std::byte* element) { std::memcpy(element, &bits, size_of(dtype)); }
inline uint64_t load_bits(int32_t dtype, const std::byte* element) {
  uint64_t bits = 0;
  std::memcpy(&bits, element, size_of(dtype));
  return bits;
}

}  // namespace support
