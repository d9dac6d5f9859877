// SPDX-License-Identifier: Apache-2.0
#include "tests/support/element.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "capi/include/symm/symm.h"

namespace support {
namespace {

uint64_t sign_bit(int32_t dtype) { return uint64_t{1} << (8 * size_of(dtype) - 1); }

// The code of infinity, or of NaN where there is none: one beyond the largest number.
uint64_t beyond(int32_t dtype) {
  const FloatFormat format = format_of(dtype);
  const uint64_t all_ones = sign_bit(dtype) - 1;
  return format.has_infinity ? all_ones >> format.mantissa_bits << format.mantissa_bits : all_ones;
}

// Of the codes 0 .. largest, ascending.
const std::vector<double>& values_of(int32_t dtype) {
  static const auto make = [](int32_t of) {
    std::vector<double> values;
    for (uint64_t code = 0; code < beyond(of); ++code) values.push_back(double{decode(of, code)});
    return values;
  };
  static const std::vector<double> f16 = make(SYMM_DTYPE_F16), bf16 = make(SYMM_DTYPE_BF16), e4m3 = make(SYMM_DTYPE_F8E4M3),
                                   e5m2 = make(SYMM_DTYPE_F8E5M2);
  return dtype == SYMM_DTYPE_F16 ? f16 : dtype == SYMM_DTYPE_BF16 ? bf16 : dtype == SYMM_DTYPE_F8E4M3 ? e4m3 : e5m2;
}

}  // namespace

FloatFormat format_of(int32_t dtype) {
  switch (dtype) {
    case SYMM_DTYPE_F16: return {10, 15, true};
    case SYMM_DTYPE_F32: return {23, 127, true};
    case SYMM_DTYPE_F64: return {52, 1023, true};
    case SYMM_DTYPE_BF16: return {7, 127, true};
    case SYMM_DTYPE_F8E4M3: return {3, 7, false};
    case SYMM_DTYPE_F8E5M2: return {2, 15, true};
    default: return {0, 0, false};
  }
}

float decode(int32_t dtype, uint64_t code) {
  const FloatFormat format = format_of(dtype);
  const uint64_t magnitude = code & (sign_bit(dtype) - 1);
  const uint64_t first = beyond(dtype);
  float value = 0;
  if (magnitude >= first) {
    value = magnitude == first && format.has_infinity ? std::numeric_limits<float>::infinity()
                                                      : std::numeric_limits<float>::quiet_NaN();
  } else {
    const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
    const int one = 1 << format.mantissa_bits;
    const int fraction = static_cast<int>(magnitude) & (one - 1);
    value = std::ldexp(static_cast<float>(exponent == 0 ? fraction : fraction + one),
                       std::max(exponent, 1) - format.bias - format.mantissa_bits);
  }
  return magnitude != code ? -value : value;
}

uint64_t encode(int32_t dtype, float value) {
  const uint64_t sign = std::signbit(value) ? sign_bit(dtype) : 0;
  if (std::isnan(value)) {
    const FloatFormat format = format_of(dtype);
    return sign | beyond(dtype) | (format.has_infinity ? uint64_t{1} << (format.mantissa_bits - 1) : 0);
  }
  const std::vector<double>& values = values_of(dtype);
  const double x = std::fabs(double{value});
  if (x >= values.back()) {
    const double step = values.back() - values[values.size() - 2];
    // The largest code is odd where there is infinity, so the tie goes up to that.
    const bool largest = size_of(dtype) == 1 || x < values.back() + step / 2;
    return sign | (beyond(dtype) - (largest ? 1 : 0));
  }
  const auto above = std::upper_bound(values.begin(), values.end(), x);
  const auto low = static_cast<uint64_t>(above - values.begin()) - 1;
  const double middle = (values[low] + values[low + 1]) / 2;
  if (x == middle) return sign | (low % 2 == 0 ? low : low + 1);
  return sign | (x < middle ? low : low + 1);
}

uint64_t encode_integer(int32_t dtype, int64_t value) {
  const FloatFormat format = format_of(dtype);
  if (format.bias == 0) return static_cast<uint64_t>(value) & (UINT64_MAX >> (64 - 8 * size_of(dtype)));
  if (value == 0) return 0;
  const auto magnitude = static_cast<uint64_t>(value < 0 ? -value : value);
  const auto exponent = static_cast<int>(std::bit_width(magnitude)) - 1;
  const uint64_t rest = magnitude ^ (uint64_t{1} << exponent);
  const int shift = format.mantissa_bits - exponent;
  if (shift < 0 && (rest & ((uint64_t{1} << -shift) - 1)) != 0) throw std::runtime_error("no number of the data type");
  const uint64_t fraction = shift >= 0 ? rest << shift : rest >> -shift;
  return (value < 0 ? sign_bit(dtype) : 0) | static_cast<uint64_t>(exponent + format.bias) << format.mantissa_bits | fraction;
}

}  // namespace support
