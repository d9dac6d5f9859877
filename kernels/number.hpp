// A number of the caller: a factor, an epsilon. The caller's thread may round in another direction,
// flush subnormal numbers to zero, or trap (fast-math programs, feenableexcept()), and an
// instruction that converts or compares floats there depends on that. So such a number is kept as
// its bits, and is compared and converted by integer instructions: on all ranks with one result.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace symm {
class Number {
 public:
  constexpr Number() noexcept = default;
  constexpr explicit Number(double value) noexcept : bits_(std::bit_cast<uint64_t>(value)) {}
  constexpr explicit Number(float value) noexcept
      : Number(of_f32(std::bit_cast<uint32_t>(value))) {}

  // The number whose bits as a double these are.
  static constexpr Number of_bits(uint64_t bits) noexcept {
    Number number;
    number.bits_ = bits;
    return number;
  }

  // The number whose bits as a float these are, which a double holds exactly.
  static constexpr Number of_f32(uint32_t bits) noexcept {
    const uint64_t sign = uint64_t{bits & 0x80000000U} << 32;
    const uint32_t exponent = bits >> 23 & 0xFFU;
    uint64_t fraction = bits & 0x7FFFFFU;

    if (exponent == 0xFF) return of_bits(sign | kInfinity | fraction << kCut);
    if (exponent != 0) {
      return of_bits(sign | uint64_t{exponent + kBias - kBiasF32} << kFraction | fraction << kCut);
    }
    if (fraction == 0) return of_bits(sign);

    // A subnormal float is a normal double: its leading one is the hidden bit there.
    const auto width = static_cast<uint32_t>(std::bit_width(fraction));
    fraction = fraction << (kFraction + 1 - width) & kFractionMask;
    return of_bits(sign | uint64_t{width + kBias - kBiasF32 - 23} << kFraction | fraction);
  }

  constexpr uint64_t bits() const noexcept { return bits_; }

  constexpr double f64() const noexcept { return std::bit_cast<double>(bits_); }

  // The nearest float; of two, the even one. A NaN is quiet.
  constexpr uint32_t f32_bits() const noexcept {
    const auto sign = static_cast<uint32_t>(bits_ >> 32 & 0x80000000U);
    const auto exponent = static_cast<uint32_t>(magnitude() >> kFraction);
    const uint64_t fraction = bits_ & kFractionMask;

    if (is_nan()) return sign | 0x7FC00000U | static_cast<uint32_t>(fraction >> kCut);
    if (exponent > kBias + kBiasF32) return sign | 0x7F800000U;

    // The significand loses kCut bits and, below the normal floats, one for each power of two.
    const bool is_normal = exponent > kBias - kBiasF32;
    const uint32_t cut = kCut + (is_normal ? 0 : kBias - kBiasF32 + 1 - exponent);
    if (cut > kFraction + 2) return sign;
    const uint64_t significand = fraction | uint64_t{1} << kFraction;
    const uint64_t half = uint64_t{1} << (cut - 1);
    const uint64_t rest = significand & (2 * half - 1);
    auto rounded = static_cast<uint32_t>(significand >> cut);
    if (rest > half || (rest == half && rounded % 2 == 1)) ++rounded;

    // The hidden bit of the significand adds one to the exponent, and so does what is carried: up
    // to infinity, or from the largest subnormal float to the smallest normal one.
    const uint32_t below = is_normal ? exponent - (kBias - kBiasF32) - 1 : 0;
    return sign | ((below << 23) + rounded);
  }

  constexpr float f32() const noexcept { return std::bit_cast<float>(f32_bits()); }

  // This number as an element of type T, float or double.
  template <class T>
  constexpr T as() const noexcept {
    if constexpr (std::is_same_v<T, float>) return f32();
    if constexpr (std::is_same_v<T, double>) return f64();
  }

  // The nearest float as a number.
  constexpr Number rounded_to_f32() const noexcept { return of_f32(f32_bits()); }

  constexpr bool is_zero() const noexcept { return magnitude() == 0; }
  constexpr bool is_nan() const noexcept { return magnitude() > kInfinity; }
  constexpr bool is_finite() const noexcept { return magnitude() < kInfinity; }
  // False for -0.0.
  constexpr bool is_negative() const noexcept {
    return bits_ >> 63 != 0 && !is_zero() && !is_nan();
  }

  // The bits are equal. So -0.0 is not 0.0, and a NaN is equal to itself.
  constexpr bool operator==(const Number&) const noexcept = default;

 private:
  static_assert(std::numeric_limits<double>::is_iec559 && std::numeric_limits<float>::is_iec559);
  static constexpr uint32_t kFraction = 52;
  static constexpr uint32_t kCut = kFraction - 23;
  static constexpr uint32_t kBias = 1023;
  static constexpr uint32_t kBiasF32 = 127;
  static constexpr uint64_t kFractionMask = (uint64_t{1} << kFraction) - 1;
  static constexpr uint64_t kInfinity = uint64_t{0x7FF} << kFraction;

  constexpr uint64_t magnitude() const noexcept { return bits_ & ~(uint64_t{1} << 63); }

  uint64_t bits_ = 0;
};
}  // namespace symm
