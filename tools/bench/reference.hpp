// The reference that the tool and the tests check results against: elements of a data type as bits,
// and reductions of one element at a time. Small floats are decoded by formula and encoded by a
// search for the nearest value. The reference shares no code with the library, so that a defect of
// the library cannot hide.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "capi/include/symm/symm.h"

namespace symm::reference {
// A data type or an operation, in the codes of symm.h, which the library's own enums share.
struct Code {
  int32_t value;
  template <class Enum>
  constexpr Code(Enum code) : value(static_cast<int32_t>(code)) {}
  constexpr operator int32_t() const { return value; }
};

// The bits of an element, which has up to 128.
__extension__ using Bits = unsigned __int128;

inline size_t size_of(Code dtype) { return static_cast<size_t>(dtype & 0xff) / 8; }

// Little endian, as every machine that symm runs on.
inline void store_bits(Code dtype, Bits bits, std::byte* element) {
  std::memcpy(element, &bits, size_of(dtype));
}
inline Bits load_bits(Code dtype, const std::byte* element) {
  Bits bits = 0;
  std::memcpy(&bits, element, size_of(dtype));
  return bits;
}

template <class T>
T from_bits(Bits bits) {
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

// The type of both parts of a complex number, or of the value of a pair; else the type itself.
inline Code part_of(Code dtype) {
  switch (dtype) {
    case SYMM_DTYPE_C64:
    case SYMM_DTYPE_F32_I32: return SYMM_DTYPE_F32;
    case SYMM_DTYPE_C128:
    case SYMM_DTYPE_F64_I64: return SYMM_DTYPE_F64;
    case SYMM_DTYPE_I32_I32: return SYMM_DTYPE_I32;
    case SYMM_DTYPE_I64_I64: return SYMM_DTYPE_I64;
    default: return dtype;
  }
}
inline bool is_complex(Code dtype) { return dtype == SYMM_DTYPE_C64 || dtype == SYMM_DTYPE_C128; }
inline bool is_pair(Code dtype) { return part_of(dtype) != dtype && !is_complex(dtype); }
inline Code index_of(Code pair) { return size_of(pair) == 8 ? SYMM_DTYPE_I32 : SYMM_DTYPE_I64; }

// The two parts of an element, of 4 or 8 bytes each.
inline Bits join(Code dtype, uint64_t first, uint64_t second) {
  return Bits{first} | Bits{second} << (4 * size_of(dtype));
}
inline uint64_t first_of(Code dtype, Bits bits) {
  return static_cast<uint64_t>(bits) & (~uint64_t{0} >> (64 - 4 * size_of(dtype)));
}
inline uint64_t second_of(Code dtype, Bits bits) {
  return static_cast<uint64_t>(bits >> (4 * size_of(dtype)));
}

struct FloatFormat {
  int mantissa_bits;
  int bias;  // 0: integers
  bool has_infinity;
};
inline FloatFormat format_of(Code dtype) {
  switch (dtype) {
    case SYMM_DTYPE_F16: return {10, 15, true};
    case SYMM_DTYPE_F32: return {23, 127, true};
    case SYMM_DTYPE_F64: return {52, 1023, true};
    case SYMM_DTYPE_BF16: return {7, 127, true};
    case SYMM_DTYPE_F8E4M3: return {3, 7, false};
    case SYMM_DTYPE_F8E5M2: return {2, 15, true};
    case SYMM_DTYPE_C64: return format_of(SYMM_DTYPE_F32);
    case SYMM_DTYPE_C128: return format_of(SYMM_DTYPE_F64);
    default: return {0, 0, false};
  }
}

inline uint64_t sign_bit(Code dtype) { return uint64_t{1} << (8 * size_of(dtype) - 1); }

// The code of infinity, or of NaN where there is none: one beyond the largest number.
inline uint64_t beyond(Code dtype) {
  const FloatFormat format = format_of(dtype);
  const uint64_t all_ones = sign_bit(dtype) - 1;
  return format.has_infinity ? all_ones >> format.mantissa_bits << format.mantissa_bits : all_ones;
}

// The exact value of a code of an 8-bit or 16-bit float.
inline float decode(Code dtype, uint64_t code) {
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

// The values of the codes 0 .. largest, in ascending order.
inline const std::vector<double>& values_of(Code dtype) {
  static const auto make = [](Code of) {
    std::vector<double> values;
    for (uint64_t code = 0; code < beyond(of); ++code) {
      values.push_back(double{decode(of, code)});
    }
    return values;
  };

  static const std::vector<double> f16 = make(SYMM_DTYPE_F16);
  static const std::vector<double> bf16 = make(SYMM_DTYPE_BF16);
  static const std::vector<double> e4m3 = make(SYMM_DTYPE_F8E4M3);
  static const std::vector<double> e5m2 = make(SYMM_DTYPE_F8E5M2);

  switch (dtype) {
    case SYMM_DTYPE_F16: return f16;
    case SYMM_DTYPE_BF16: return bf16;
    case SYMM_DTYPE_F8E4M3: return e4m3;
    default: return e5m2;
  }
}

// The code nearest to a value: ties to even. Finite values saturate at 8 bits, where infinity is
// NaN if there is no other code for it.
inline uint64_t encode(Code dtype, float value) {
  const uint64_t sign = std::signbit(value) ? sign_bit(dtype) : 0;
  if (std::isinf(value)) return sign | beyond(dtype);
  if (std::isnan(value)) {
    const FloatFormat format = format_of(dtype);
    return sign | beyond(dtype) |
           (format.has_infinity ? uint64_t{1} << (format.mantissa_bits - 1) : 0);
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

// Encodes a number in any data type; throws if the type has no such number. Of two parts the second
// is the number with the other sign.
inline Bits encode_integer(Code dtype, int64_t value) {
  if (is_complex(dtype) || is_pair(dtype)) {
    const Code second = is_pair(dtype) ? index_of(dtype) : part_of(dtype);
    return encode_integer(part_of(dtype), value) | encode_integer(second, -value)
                                                       << (4 * size_of(dtype));
  }
  const FloatFormat format = format_of(dtype);
  if (format.bias == 0) {
    return static_cast<uint64_t>(value) & (UINT64_MAX >> (64 - 8 * size_of(dtype)));
  }

  if (value == 0) return 0;
  const auto magnitude = static_cast<uint64_t>(value < 0 ? -value : value);
  const auto exponent = static_cast<int>(std::bit_width(magnitude)) - 1;
  const uint64_t rest = magnitude ^ (uint64_t{1} << exponent);
  const int shift = format.mantissa_bits - exponent;

  if (shift < 0 && (rest & ((uint64_t{1} << -shift) - 1)) != 0) {
    throw std::runtime_error("no number of the data type");
  }

  const uint64_t fraction = shift >= 0 ? rest << shift : rest >> -shift;
  return (value < 0 ? sign_bit(dtype) : 0) |
         static_cast<uint64_t>(exponent + format.bias) << format.mantissa_bits | fraction;
}

inline bool is_bitwise(Code op) {
  return op == SYMM_OP_BAND || op == SYMM_OP_BOR || op == SYMM_OP_BXOR;
}

// Whether the library has the operation for the type: there is no average of bool, only integers
// are combined bit by bit, complex numbers have no order, and pairs have operations of their own.
inline bool has_op(Code dtype, Code op) {
  const bool is_bool = dtype == SYMM_DTYPE_BOOL;
  const bool is_located = op == SYMM_OP_MINLOC || op == SYMM_OP_MAXLOC;
  if (is_located || is_pair(dtype)) return is_located && is_pair(dtype);
  if (is_bitwise(op)) return !is_bool && format_of(dtype).bias == 0;
  if (is_complex(dtype)) return op != SYMM_OP_MIN && op != SYMM_OP_MAX;
  return !is_bool || op != SYMM_OP_AVG;
}

// Combines two numbers. If products saturate, those of finite numbers stay finite.
template <class T>
T combine_floats(Code op, T a, T x, bool saturates) {
  switch (op) {
    case SYMM_OP_PROD: {
      const T product = a * x;
      const bool stays_finite = saturates && std::isfinite(a) && std::isfinite(x);
      return stays_finite && std::isinf(product)
                 ? std::copysign(std::numeric_limits<T>::max(), product)
                 : product;
    }
    case SYMM_OP_MIN:
    case SYMM_OP_MAX:
      if (std::isnan(a) || std::isnan(x)) return std::numeric_limits<T>::quiet_NaN();
      if (op == SYMM_OP_MIN) return x < a ? x : a;
      return x > a ? x : a;
    default: return a + x;
  }
}

// The tree of the numbers of ranks first .. last-1: the left part has the largest power of two of
// ranks that leaves some for the right part.
template <class T>
T combine_tree(Code op, const std::vector<T>& numbers, size_t first, size_t last, bool saturates) {
  if (last - first == 1) return numbers[first];
  size_t left = 1;
  while (2 * left < last - first) {
    left *= 2;
  }
  return combine_floats(op, combine_tree(op, numbers, first, first + left, saturates),
      combine_tree(op, numbers, first + left, last, saturates), saturates);
}

template <class T, class Read>
T reduce_floats(Code op, const std::vector<Bits>& operands, const Read& read,
    bool saturates = false, symm_order_t order = SYMM_ORDER_RANKS,
    T most = std::numeric_limits<T>::infinity()) {
  if (operands.empty()) return neutral<T>(op, most);

  T result = read(operands[0]);
  if (order == SYMM_ORDER_TREE) {
    std::vector<T> numbers;
    numbers.reserve(operands.size());
    for (const Bits bits : operands) {
      numbers.push_back(read(bits));
    }
    result = combine_tree(op, numbers, 0, numbers.size(), saturates);
  } else {
    for (size_t i = 1; i < operands.size(); ++i) {
      result = combine_floats(op, result, read(operands[i]), saturates);
    }
  }
  return op == SYMM_OP_AVG ? result / static_cast<T>(operands.size()) : result;
}

// What changes no number that it is combined with. `most` is the largest number of the type, or
// infinity.
template <class T>
T neutral(Code op, T most) {
  switch (op) {
    case SYMM_OP_PROD: return T{1};
    case SYMM_OP_BAND: return static_cast<T>(-1);
    case SYMM_OP_MIN: return most;
    case SYMM_OP_MAX:
      if constexpr (std::is_integral_v<T>) {
        return std::numeric_limits<T>::min();
      } else {
        return -most;
      }
    default: return T{0};
  }
}

// Wide enough for one step of any of them; every step is cut back to the type.
template <class T>
uint64_t reduce_integers(Code op, const std::vector<Bits>& bits) {
  __extension__ using Wide = __int128;
  __extension__ using Unsigned = unsigned __int128;
  const auto cut = [](Wide value) {
    return static_cast<T>(static_cast<uint64_t>(static_cast<Unsigned>(value)));
  };

  if (bits.empty()) return to_bits(neutral<T>(op, std::numeric_limits<T>::max()));
  T result = from_bits<T>(bits[0]);
  for (size_t i = 1; i < bits.size(); ++i) {
    const T x = from_bits<T>(bits[i]);
    switch (op) {
      case SYMM_OP_PROD:
        result = cut(static_cast<Wide>(
            static_cast<Unsigned>(Wide{result}) * static_cast<Unsigned>(Wide{x})));
        break;
      case SYMM_OP_MIN: result = std::min(result, x); break;
      case SYMM_OP_MAX: result = std::max(result, x); break;
      case SYMM_OP_BAND: result = cut(Wide{result} & Wide{x}); break;
      case SYMM_OP_BOR: result = cut(Wide{result} | Wide{x}); break;
      case SYMM_OP_BXOR: result = cut(Wide{result} ^ Wide{x}); break;
      default: result = cut(Wide{result} + Wide{x});
    }
  }

  if (op == SYMM_OP_AVG) result = cut(Wide{result} / Wide{static_cast<int64_t>(bits.size())});
  return to_bits(result);
}

// Infinity, or the largest number of a type that has none.
inline float most_of(Code dtype) {
  return format_of(dtype).has_infinity ? std::numeric_limits<float>::infinity()
                                       : decode(dtype, beyond(dtype) - 1);
}

// The product of complex numbers. What is volatile is rounded where it is stored.
template <class T>
std::vector<T> multiply(const std::vector<T>& a, const std::vector<T>& x) {
  const volatile T both_real = a[0] * x[0];
  const volatile T both_imaginary = a[1] * x[1];
  const volatile T outer = a[0] * x[1];
  const volatile T inner = a[1] * x[0];
  return {both_real - both_imaginary, outer + inner};
}

// The product of numbers first .. last-1, in their order or as combine_tree() has the tree.
template <class T>
std::vector<T> multiply_all(
    const std::vector<std::vector<T>>& numbers, size_t first, size_t last, symm_order_t order) {
  if (last - first == 1) return numbers[first];
  size_t left = 1;
  while (order == SYMM_ORDER_TREE && 2 * left < last - first) {
    left *= 2;
  }
  const size_t middle = order == SYMM_ORDER_TREE ? first + left : last - 1;
  return multiply(
      multiply_all(numbers, first, middle, order), multiply_all(numbers, middle, last, order));
}

template <class T>
Bits reduce_complex(Code dtype, Code op, const std::vector<Bits>& operands, symm_order_t order) {
  if (op == SYMM_OP_PROD) {
    std::vector<std::vector<T>> numbers;
    for (const Bits bits : operands) {
      numbers.push_back(
          {from_bits<T>(first_of(dtype, bits)), from_bits<T>(second_of(dtype, bits))});
    }
    if (numbers.empty()) return to_bits(T{1});
    const std::vector<T> all = multiply_all(numbers, 0, numbers.size(), order);
    return join(dtype, to_bits(all[0]), to_bits(all[1]));
  }

  std::vector<Bits> real;
  std::vector<Bits> imaginary;
  real.reserve(operands.size());
  imaginary.reserve(operands.size());
  for (const Bits bits : operands) {
    real.push_back(first_of(dtype, bits));
    imaginary.push_back(second_of(dtype, bits));
  }
  return join(dtype, to_bits(reduce_floats<T>(op, real, from_bits<T>, false, order)),
      to_bits(reduce_floats<T>(op, imaginary, from_bits<T>, false, order)));
}

// The first of the pairs that no other is ahead of.
template <class Value, class Index>
Bits reduce_pairs(Code dtype, Code op, const std::vector<Bits>& operands) {
  const bool is_min = op == SYMM_OP_MINLOC;
  if (operands.empty()) {
    const Code plain = is_min ? SYMM_OP_MIN : SYMM_OP_MAX;
    constexpr bool kHasInfinity = std::numeric_limits<Value>::has_infinity;
    const Value most =
        kHasInfinity ? std::numeric_limits<Value>::infinity() : std::numeric_limits<Value>::max();
    return join(
        dtype, to_bits(neutral<Value>(plain, most)), to_bits(std::numeric_limits<Index>::max()));
  }

  const auto is_ahead = [&](Bits a, Bits b) {
    const auto value_a = from_bits<Value>(first_of(dtype, a));
    const auto value_b = from_bits<Value>(first_of(dtype, b));
    const bool a_is_nan = std::isnan(static_cast<double>(value_a));
    const bool b_is_nan = std::isnan(static_cast<double>(value_b));
    if (a_is_nan != b_is_nan) return a_is_nan;
    if (!a_is_nan && value_a != value_b) return (value_a < value_b) == is_min;
    return from_bits<Index>(second_of(dtype, a)) < from_bits<Index>(second_of(dtype, b));
  };
  return *std::min_element(operands.begin(), operands.end(), is_ahead);
}

// The reduction of one element over ranks 0, 1, ..., or over the tree of ranks.
inline Bits reduce(
    Code dtype, Code op, const std::vector<Bits>& operands, symm_order_t order = SYMM_ORDER_RANKS) {
  switch (dtype) {
    case SYMM_DTYPE_C64: return reduce_complex<float>(dtype, op, operands, order);
    case SYMM_DTYPE_C128: return reduce_complex<double>(dtype, op, operands, order);
    case SYMM_DTYPE_I32_I32: return reduce_pairs<int32_t, int32_t>(dtype, op, operands);
    case SYMM_DTYPE_I64_I64: return reduce_pairs<int64_t, int64_t>(dtype, op, operands);
    case SYMM_DTYPE_F32_I32: return reduce_pairs<float, int32_t>(dtype, op, operands);
    case SYMM_DTYPE_F64_I64: return reduce_pairs<double, int64_t>(dtype, op, operands);
    case SYMM_DTYPE_BOOL: {
      const auto is_true = [](Bits bits) { return bits != 0; };
      const bool all = op == SYMM_OP_MIN || op == SYMM_OP_PROD;
      return all ? std::all_of(operands.begin(), operands.end(), is_true)
                 : std::any_of(operands.begin(), operands.end(), is_true);
    }
    case SYMM_DTYPE_I16: return reduce_integers<int16_t>(op, operands);
    case SYMM_DTYPE_U16: return reduce_integers<uint16_t>(op, operands);
    case SYMM_DTYPE_I8: return reduce_integers<int8_t>(op, operands);
    case SYMM_DTYPE_U8: return reduce_integers<uint8_t>(op, operands);
    case SYMM_DTYPE_I32: return reduce_integers<int32_t>(op, operands);
    case SYMM_DTYPE_U32: return reduce_integers<uint32_t>(op, operands);
    case SYMM_DTYPE_I64: return reduce_integers<int64_t>(op, operands);
    case SYMM_DTYPE_U64: return reduce_integers<uint64_t>(op, operands);
    case SYMM_DTYPE_F64:
      return to_bits(reduce_floats<double>(op, operands, from_bits<double>, false, order));
    case SYMM_DTYPE_F32:
      return to_bits(reduce_floats<float>(op, operands, from_bits<float>, false, order));
    default:
      return encode(dtype,
          reduce_floats<float>(
              op, operands, [&](Bits bits) { return decode(dtype, static_cast<uint64_t>(bits)); },
              size_of(dtype) == 1, order, most_of(dtype)));
  }
}

// Reduces floats with a factor, applied to each rank's operand before or to the result of `rank`
// after the reduction, into elements of type `result`.
template <class Factor>
uint64_t reduce_scaled(Code dtype, Code op, const std::vector<Bits>& operands, Code result,
    symm_scale_t position, const Factor& factor, int rank, symm_order_t order = SYMM_ORDER_RANKS) {
  const auto in = [&](auto zero) {
    using Wide = decltype(zero);
    std::vector<Bits> wide;
    for (const Bits bits : operands) {
      Wide x = size_of(dtype) < 4 ? static_cast<Wide>(decode(dtype, static_cast<uint64_t>(bits)))
                                  : from_bits<Wide>(bits);
      if (position == SYMM_SCALE_BEFORE) {
        x *= static_cast<Wide>(factor(static_cast<int>(wide.size())));
      }
      wide.push_back(to_bits(x));
    }
    auto value = reduce_floats<Wide>(op, wide, from_bits<Wide>, false, order);
    if (position == SYMM_SCALE_AFTER) value *= static_cast<Wide>(factor(rank));
    return size_of(result) < 4 ? encode(result, static_cast<float>(value)) : to_bits(value);
  };

  return dtype == SYMM_DTYPE_F64 ? in(0.0) : in(0.0F);
}
}  // namespace symm::reference
