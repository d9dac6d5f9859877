// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

namespace symm::reference {
namespace {

struct Layout {
  int width, mantissa, bias;
  uint64_t largest;  // code of the largest finite value
  uint64_t nan;
  bool saturates;
};

Layout layout_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return {16, 10, 15, 0x7BFF, 0x7E00, false};
    case DType::bf16: return {16, 7, 127, 0x7F7F, 0x7FC0, false};
    case DType::f8e4m3: return {8, 3, 7, 0x7E, 0x7F, true};
    default: return {8, 2, 15, 0x7B, 0x7E, true};
  }
}

// Values of the codes 0 .. largest, ascending.
const std::vector<double>& values_of(DType dtype) {
  static const auto make = [](DType of) {
    std::vector<double> values;
    for (uint64_t code = 0; code <= layout_of(of).largest; ++code) values.push_back(double{decode_small(of, code)});
    return values;
  };
  static const std::vector<double> f16 = make(DType::f16), bf16 = make(DType::bf16), e4m3 = make(DType::f8e4m3),
                                   e5m2 = make(DType::f8e5m2);
  return dtype == DType::f16 ? f16 : dtype == DType::bf16 ? bf16 : dtype == DType::f8e4m3 ? e4m3 : e5m2;
}

template <class T>
T from_bits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
uint64_t to_bits(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
T reduce_floats(Op op, const std::vector<T>& x) {
  T result = x[0];
  for (size_t i = 1; i < x.size(); ++i) {
    switch (op) {
      case Op::sum:
      case Op::avg: result = result + x[i]; break;
      case Op::prod: result = result * x[i]; break;
      case Op::min:
        if (std::isnan(result) || std::isnan(x[i]))
          result = std::numeric_limits<T>::quiet_NaN();
        else if (x[i] < result)
          result = x[i];
        break;
      case Op::max:
        if (std::isnan(result) || std::isnan(x[i]))
          result = std::numeric_limits<T>::quiet_NaN();
        else if (x[i] > result)
          result = x[i];
        break;
    }
  }
  if (op == Op::avg) result = result / static_cast<T>(x.size());
  return result;
}

// Wide enough for one step of any of them; every step is cut back to the type.
template <class T>
uint64_t reduce_integers(Op op, const std::vector<uint64_t>& bits) {
  __extension__ using Wide = __int128;
  __extension__ using Unsigned = unsigned __int128;
  const auto cut = [](Wide value) { return static_cast<T>(static_cast<uint64_t>(static_cast<Unsigned>(value))); };
  T result = from_bits<T>(bits[0]);
  for (size_t i = 1; i < bits.size(); ++i) {
    const T x = from_bits<T>(bits[i]);
    switch (op) {
      case Op::sum:
      case Op::avg: result = cut(Wide{result} + Wide{x}); break;
      case Op::prod: result = cut(static_cast<Wide>(static_cast<Unsigned>(Wide{result}) * static_cast<Unsigned>(Wide{x}))); break;
      case Op::min: result = std::min(result, x); break;
      case Op::max: result = std::max(result, x); break;
    }
  }
  if (op == Op::avg) result = cut(Wide{result} / Wide{static_cast<int64_t>(bits.size())});
  return to_bits(result);
}

}  // namespace

bool is_float(DType dtype) {
  return dtype == DType::f16 || dtype == DType::f32 || dtype == DType::f64 || dtype == DType::bf16 || dtype == DType::f8e4m3 ||
         dtype == DType::f8e5m2;
}

uint64_t load_bits(DType dtype, const std::byte* element) {
  uint64_t bits = 0;
  std::memcpy(&bits, element, size_of(dtype));
  return bits;
}

void store_bits(DType dtype, uint64_t bits, std::byte* element) { std::memcpy(element, &bits, size_of(dtype)); }

float decode_small(DType dtype, uint64_t code) {
  const Layout l = layout_of(dtype);
  const uint64_t magnitude = code & ((uint64_t{1} << (l.width - 1)) - 1);
  const bool negative = magnitude != code;
  float value = 0;
  if (magnitude > l.largest) {
    value = magnitude == l.largest + 1 && dtype != DType::f8e4m3 ? std::numeric_limits<float>::infinity()
                                                                 : std::numeric_limits<float>::quiet_NaN();
  } else {
    const int exponent = static_cast<int>(magnitude >> l.mantissa);
    const int fraction = static_cast<int>(magnitude & ((uint64_t{1} << l.mantissa) - 1));
    value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), 1 - l.bias - l.mantissa)
                          : std::ldexp(static_cast<float>(fraction + (1 << l.mantissa)), exponent - l.bias - l.mantissa);
  }
  return negative ? -value : value;
}

uint64_t encode_small(DType dtype, float value) {
  const Layout l = layout_of(dtype);
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (l.width - 1) : 0;
  if (std::isnan(value)) return sign | l.nan;
  const std::vector<double>& values = values_of(dtype);
  const double x = std::fabs(double{value});
  if (x >= values.back()) {
    const double step = values.back() - values[values.size() - 2];
    // The largest code is odd, so the tie goes up, to infinity.
    return sign | (l.saturates || x < values.back() + step / 2 ? l.largest : l.largest + 1);
  }
  const auto above = std::upper_bound(values.begin(), values.end(), x);
  const auto low = static_cast<uint64_t>(above - values.begin()) - 1;
  const double middle = (values[low] + values[low + 1]) / 2;
  if (x == middle) return sign | (low % 2 == 0 ? low : low + 1);
  return sign | (x < middle ? low : low + 1);
}

bool is_nan(DType dtype, uint64_t bits) {
  switch (dtype) {
    case DType::f32: return std::isnan(from_bits<float>(bits));
    case DType::f64: return std::isnan(from_bits<double>(bits));
    default: return is_float(dtype) && std::isnan(decode_small(dtype, bits));
  }
}

uint64_t reduce(DType dtype, Op op, const std::vector<uint64_t>& operands) {
  switch (dtype) {
    case DType::i8: return reduce_integers<int8_t>(op, operands);
    case DType::u8: return reduce_integers<uint8_t>(op, operands);
    case DType::i32: return reduce_integers<int32_t>(op, operands);
    case DType::u32: return reduce_integers<uint32_t>(op, operands);
    case DType::i64: return reduce_integers<int64_t>(op, operands);
    case DType::u64: return reduce_integers<uint64_t>(op, operands);
    case DType::f64: {
      std::vector<double> x;
      for (const uint64_t bits : operands) x.push_back(from_bits<double>(bits));
      return to_bits(reduce_floats(op, x));
    }
    case DType::f32: {
      std::vector<float> x;
      for (const uint64_t bits : operands) x.push_back(from_bits<float>(bits));
      return to_bits(reduce_floats(op, x));
    }
    default: {
      std::vector<float> x;
      for (const uint64_t bits : operands) x.push_back(decode_small(dtype, bits));
      return encode_small(dtype, reduce_floats(op, x));
    }
  }
}

bool same(DType dtype, uint64_t a, uint64_t b) { return a == b || (is_nan(dtype, a) && is_nan(dtype, b)); }

bool same(DType dtype, const std::byte* a, const std::byte* b, size_t count) {
  if (count == 0 || std::memcmp(a, b, count * size_of(dtype)) == 0) return true;
  for (size_t i = 0; i < count; ++i)
    if (!same(dtype, load_bits(dtype, a + i * size_of(dtype)), load_bits(dtype, b + i * size_of(dtype)))) return false;
  return true;
}

std::string difference(DType dtype, const std::byte* got, const std::byte* expected, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const uint64_t a = load_bits(dtype, got + i * size_of(dtype));
    const uint64_t b = load_bits(dtype, expected + i * size_of(dtype));
    if (same(dtype, a, b)) continue;
    std::ostringstream out;
    out << "element " << i << " of " << count << ": 0x" << std::hex << a << ", expected 0x" << b;
    return out.str();
  }
  return "no difference";
}

}  // namespace symm::reference
