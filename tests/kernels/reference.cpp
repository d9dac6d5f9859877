// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

namespace symm::reference {
namespace {

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

bool is_nan(DType dtype, uint64_t bits) {
  switch (dtype) {
    case DType::f32: return std::isnan(from_bits<float>(bits));
    case DType::f64: return std::isnan(from_bits<double>(bits));
    default: return is_float(dtype) && std::isnan(decode_small(dtype, bits));
  }
}

uint64_t reduce(DType dtype, Op op, const std::vector<uint64_t>& operands) {
  switch (dtype) {
    case DType::boolean: {
      const auto is_true = [](uint64_t bits) { return bits != 0; };
      const bool all = op == Op::min || op == Op::prod;
      return all ? std::all_of(operands.begin(), operands.end(), is_true)
                 : std::any_of(operands.begin(), operands.end(), is_true);
    }
    case DType::i16: return reduce_integers<int16_t>(op, operands);
    case DType::u16: return reduce_integers<uint16_t>(op, operands);
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
