// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/dtype.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace symm::tool {

const std::vector<Named<symm_dtype_t>>& dtypes() {
  static const std::vector<Named<symm_dtype_t>> list{
      {"i8", SYMM_DTYPE_I8},     {"u8", SYMM_DTYPE_U8},         {"i16", SYMM_DTYPE_I16},       {"u16", SYMM_DTYPE_U16},
      {"bool", SYMM_DTYPE_BOOL}, {"i32", SYMM_DTYPE_I32},       {"u32", SYMM_DTYPE_U32},       {"i64", SYMM_DTYPE_I64},
      {"u64", SYMM_DTYPE_U64},   {"f16", SYMM_DTYPE_F16},       {"bf16", SYMM_DTYPE_BF16},     {"f32", SYMM_DTYPE_F32},
      {"f64", SYMM_DTYPE_F64},   {"f8e4m3", SYMM_DTYPE_F8E4M3}, {"f8e5m2", SYMM_DTYPE_F8E5M2},
  };
  return list;
}

const std::vector<Named<symm_op_t>>& ops() {
  static const std::vector<Named<symm_op_t>> list{
      {"sum", SYMM_OP_SUM}, {"avg", SYMM_OP_AVG}, {"min", SYMM_OP_MIN}, {"max", SYMM_OP_MAX}, {"prod", SYMM_OP_PROD}};
  return list;
}

const std::vector<Named<symm_algorithm_t>>& algorithms() {
  static const std::vector<Named<symm_algorithm_t>> list{{"auto", SYMM_ALGORITHM_AUTO},
                                                         {"ll", SYMM_ALGORITHM_LL},
                                                         {"one-shot", SYMM_ALGORITHM_ONE_SHOT},
                                                         {"two-shot", SYMM_ALGORITHM_TWO_SHOT},
                                                         {"two-shot-staged", SYMM_ALGORITHM_TWO_SHOT_STAGED},
                                                         {"hybrid-cube-mesh", SYMM_ALGORITHM_HYBRID_CUBE_MESH},
                                                         {"multimem-one-shot", SYMM_ALGORITHM_MULTIMEM_ONE_SHOT},
                                                         {"multimem-two-shot", SYMM_ALGORITHM_MULTIMEM_TWO_SHOT},
                                                         {"marked", SYMM_ALGORITHM_MARKED}};
  return list;
}

size_t size_of(symm_dtype_t dtype) { return static_cast<size_t>(dtype & 0xFF) / 8; }

SmallFloat small_float(symm_dtype_t dtype) {
  switch (dtype) {
    case SYMM_DTYPE_F16: return {5, 10, true, false};
    case SYMM_DTYPE_BF16: return {8, 7, true, false};
    case SYMM_DTYPE_F8E4M3: return {4, 3, false, true};
    case SYMM_DTYPE_F8E5M2: return {5, 2, true, true};
    default: throw std::logic_error("not a small floating-point type");
  }
}

float decode(const SmallFloat& format, uint32_t code) {
  const uint32_t mantissa_mask = (1U << format.mantissa_bits) - 1;
  const uint32_t exponent_mask = (1U << format.exponent_bits) - 1;
  const uint32_t mantissa = code & mantissa_mask;
  const uint32_t exponent = code >> format.mantissa_bits & exponent_mask;
  const float sign = (code >> (format.mantissa_bits + format.exponent_bits) & 1U) != 0 ? -1.0F : 1.0F;
  if (exponent == exponent_mask && (format.has_infinity || mantissa == mantissa_mask)) {
    return format.has_infinity && mantissa == 0 ? sign * HUGE_VALF : std::nanf("");
  }
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t significand = exponent == 0 ? mantissa : mantissa | (1U << format.mantissa_bits);
  const int power = static_cast<int>(exponent == 0 ? 1 : exponent) - bias - format.mantissa_bits;
  return sign * std::ldexp(static_cast<float>(significand), power);
}

uint32_t encode(const SmallFloat& format, float value) {
  const int bits = format.mantissa_bits + format.exponent_bits;
  const uint32_t sign = std::signbit(value) ? 1U << bits : 0;
  const float magnitude = std::fabs(value);
  const uint32_t all_ones = (1U << bits) - 1;
  if (std::isnan(value)) return sign | all_ones;
  // The code of infinity, or of NaN where there is none: one beyond the largest number.
  const uint32_t beyond = format.has_infinity ? all_ones - ((1U << format.mantissa_bits) - 1) : all_ones;
  // Codes of positive numbers are in the order of the numbers. Find the largest that is not above the value.
  uint32_t low = 0;
  uint32_t high = beyond;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    (decode(format, middle) <= magnitude ? low : high) = middle;
  }
  const double below = decode(format, low);
  const double above =
      high == beyond ? 2 * below - static_cast<double>(decode(format, low - 1)) : static_cast<double>(decode(format, high));
  const double middle = (below + above) / 2;
  const bool up = magnitude > middle || (magnitude == middle && (low & 1U) != 0);
  const uint32_t nearest = up ? high : low;
  return sign | (nearest == beyond && format.saturates ? beyond - 1 : nearest);
}

namespace {

template <typename T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <typename T>
T apply(symm_op_t op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if ((op == SYMM_OP_MIN || op == SYMM_OP_MAX) && (std::isnan(a) || std::isnan(b))) return std::numeric_limits<T>::quiet_NaN();
  }
  switch (op) {
    case SYMM_OP_MIN: return b < a ? b : a;
    case SYMM_OP_MAX: return a < b ? b : a;
    default: break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    return op == SYMM_OP_PROD ? a * b : a + b;
  } else {  // wraps: done on 64 bits without a sign, then cut
    const auto wide_a = static_cast<uint64_t>(a);
    const auto wide_b = static_cast<uint64_t>(b);
    return static_cast<T>(op == SYMM_OP_PROD ? wide_a * wide_b : wide_a + wide_b);
  }
}

template <typename T, typename Load>
T fold(symm_op_t op, const std::vector<const std::byte*>& inputs, Load load_one) {
  T result = load_one(inputs[0]);
  for (size_t rank = 1; rank < inputs.size(); ++rank) result = apply(op, result, T{load_one(inputs[rank])});
  if (op == SYMM_OP_AVG) result = static_cast<T>(result / static_cast<T>(inputs.size()));
  return result;
}

template <typename T>
void combine_as(symm_op_t op, const std::vector<const std::byte*>& inputs, std::byte* out) {
  const T result = fold<T>(op, inputs, load<T>);
  std::memcpy(out, &result, sizeof result);
}

}  // namespace

void combine(symm_dtype_t dtype, symm_op_t op, const std::vector<const std::byte*>& inputs, std::byte* out) {
  switch (dtype) {
    case SYMM_DTYPE_I8: return combine_as<int8_t>(op, inputs, out);
    case SYMM_DTYPE_U8: return combine_as<uint8_t>(op, inputs, out);
    case SYMM_DTYPE_I16: return combine_as<int16_t>(op, inputs, out);
    case SYMM_DTYPE_U16: return combine_as<uint16_t>(op, inputs, out);
    case SYMM_DTYPE_BOOL: {
      const auto is_true = [](const std::byte* byte) { return *byte != std::byte{0}; };
      const bool all = op == SYMM_OP_MIN || op == SYMM_OP_PROD;
      *out = std::byte{all ? std::all_of(inputs.begin(), inputs.end(), is_true)
                           : std::any_of(inputs.begin(), inputs.end(), is_true)};
      return;
    }
    case SYMM_DTYPE_I32: return combine_as<int32_t>(op, inputs, out);
    case SYMM_DTYPE_U32: return combine_as<uint32_t>(op, inputs, out);
    case SYMM_DTYPE_I64: return combine_as<int64_t>(op, inputs, out);
    case SYMM_DTYPE_U64: return combine_as<uint64_t>(op, inputs, out);
    case SYMM_DTYPE_F32: return combine_as<float>(op, inputs, out);
    case SYMM_DTYPE_F64: return combine_as<double>(op, inputs, out);
    default: break;
  }
  const SmallFloat format = small_float(dtype);
  const bool one_byte = size_of(dtype) == 1;
  const auto load_one = [&](const std::byte* bytes) {
    return decode(format, one_byte ? load<uint8_t>(bytes) : load<uint16_t>(bytes));
  };
  const uint32_t code = encode(format, fold<float>(op, inputs, load_one));
  if (one_byte) {
    out[0] = static_cast<std::byte>(code);
  } else {
    const auto narrow = static_cast<uint16_t>(code);
    std::memcpy(out, &narrow, sizeof narrow);
  }
}

}  // namespace symm::tool
