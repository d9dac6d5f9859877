// Test data: ordinary values, and among them the special values of each type.
#pragma once

#include <random>

#include "tests/kernels/reference.hpp"

namespace symm::testing {
class Values {
 public:
  Values(DType dtype, Op op, unsigned seed) : dtype_(dtype), op_(op), random_(seed * 7919U + 17U) {}

  std::vector<std::byte> make(size_t count) {
    std::vector<std::byte> data(count * size_of(dtype_));
    for (size_t i = 0; i < count; ++i) {
      reference::store_bits(dtype_, element(), &data[i * size_of(dtype_)]);
    }
    return data;
  }

 private:
  // Both parts of a complex number are such values. A pair often has one of few values, so that its
  // index decides, which is of few, too, or any.
  reference::Bits element() {
    if (!has_two_parts(dtype_)) return one();
    Values part(part_of(dtype_), op_, static_cast<unsigned>(random_()));
    if (is_complex(dtype_)) return reference::join(dtype_, part.one(), part.one());

    const uint64_t few = random_() % 3;
    const uint64_t value = random_() % 3 == 0
                               ? part.one()
                               : static_cast<uint64_t>(reference::encode_integer(
                                     part_of(dtype_), static_cast<int64_t>(few) - 1));
    Values index(
        size_of(dtype_) == 8 ? DType::i32 : DType::i64, op_, static_cast<unsigned>(random_()));
    return reference::join(dtype_, value, random_() % 3 == 0 ? index.one() : few);
  }

  // A third of the values are any bit pattern at all, so that NaN, infinities and subnormal
  // numbers come by themselves in types that have few codes.
  uint64_t one() {
    const auto dice = random_() % 12;
    // A third of the bools are any byte: one that is not 0 counts as true.
    if (dtype_ == DType::boolean && dice < 8) return dice < 5 ? 0 : 1;
    if (dice == 0) return special();
    if (dice < 4 || !is_float(dtype_)) return any();
    // Factors are near 1, or nearly every product would be 0 or infinite.
    std::uniform_real_distribution<double> range(
        op_ == Op::prod ? 0.5 : -100.0, op_ == Op::prod ? 2.0 : 100.0);
    return from_double(range(random_));
  }

  uint64_t any() {
    const uint64_t bits = (uint64_t{random_()} << 32) | random_();
    return size_of(dtype_) == 8 ? bits : bits & ((uint64_t{1} << (8 * size_of(dtype_))) - 1);
  }

  uint64_t special() {
    if (!is_float(dtype_)) {
      const int width = static_cast<int>(8 * size_of(dtype_));
      const uint64_t ones = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
      const uint64_t top = uint64_t{1} << (width - 1);
      const uint64_t list[] = {0, 1, ones, top, top - 1, top + 1, ones - 1};
      return list[random_() % std::size(list)];
    }

    const uint64_t sign = random_() % 2 ? reference::sign_bit(dtype_) : 0;
    const int mantissa = reference::format_of(dtype_).mantissa_bits;
    const uint64_t magnitudes = reference::sign_bit(dtype_) - 1;
    const uint64_t infinity = magnitudes >> mantissa << mantissa;  // f8e4m3: 256

    // The list: zero, smallest and largest subnormal,
    // smallest normal, largest finite, infinity, NaN.
    const uint64_t list[] = {0, 1, (uint64_t{1} << mantissa) - 1, uint64_t{1} << mantissa,
        infinity - 1, infinity, magnitudes};
    return sign | list[random_() % std::size(list)];
  }

  uint64_t from_double(double value) const {
    if (dtype_ == DType::f64) return reference::to_bits(value);
    const auto single = static_cast<float>(value);
    return dtype_ == DType::f32 ? reference::to_bits(single) : reference::encode(dtype_, single);
  }

  const DType dtype_;
  const Op op_;
  std::mt19937 random_;
};
}  // namespace symm::testing
