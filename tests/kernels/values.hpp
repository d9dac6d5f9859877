// Test data: ordinary values, and among them the special values of each type. One generator draws
// all of a test case, since a seed costs as much as hundreds of values.
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
    if (!has_two_parts(dtype_)) return one(dtype_);
    const DType part = part_of(dtype_);
    if (is_complex(dtype_)) {
      const uint64_t real = one(part);
      return reference::join(dtype_, real, one(part));
    }

    const uint64_t few = random_() % 3;
    const uint64_t value =
        random_() % 3 == 0
            ? one(part)
            : static_cast<uint64_t>(reference::encode_integer(part, static_cast<int64_t>(few) - 1));
    const DType index = size_of(dtype_) == 8 ? DType::i32 : DType::i64;
    return reference::join(dtype_, value, random_() % 3 == 0 ? one(index) : few);
  }

  // A third of the values are any bit pattern at all, so that NaN, infinities and subnormal
  // numbers come by themselves in types that have few codes.
  uint64_t one(DType dtype) {
    const auto dice = random_() % 12;
    // A third of the bools are any byte: one that is not 0 counts as true.
    if (dtype == DType::boolean && dice < 8) return dice < 5 ? 0 : 1;
    if (dice == 0) return special(dtype);
    if (dice < 4 || !is_float(dtype)) return any(dtype);
    // Factors are near 1, or nearly every product would be 0 or infinite.
    std::uniform_real_distribution<double> range(
        op_ == Op::prod ? 0.5 : -100.0, op_ == Op::prod ? 2.0 : 100.0);
    return from_double(dtype, range(random_));
  }

  uint64_t any(DType dtype) {
    const uint64_t bits = (uint64_t{random_()} << 32) | random_();
    return size_of(dtype) == 8 ? bits : bits & ((uint64_t{1} << (8 * size_of(dtype))) - 1);
  }

  uint64_t special(DType dtype) {
    if (!is_float(dtype)) {
      const int width = static_cast<int>(8 * size_of(dtype));
      const uint64_t ones = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
      const uint64_t top = uint64_t{1} << (width - 1);
      const uint64_t list[] = {0, 1, ones, top, top - 1, top + 1, ones - 1};
      return list[random_() % std::size(list)];
    }

    const uint64_t sign = random_() % 2 ? reference::sign_bit(dtype) : 0;
    const int mantissa = reference::format_of(dtype).mantissa_bits;
    const uint64_t magnitudes = reference::sign_bit(dtype) - 1;
    const uint64_t infinity = magnitudes >> mantissa << mantissa;  // f8e4m3: 256

    // The list: zero, smallest and largest subnormal,
    // smallest normal, largest finite, infinity, NaN.
    const uint64_t list[] = {0, 1, (uint64_t{1} << mantissa) - 1, uint64_t{1} << mantissa,
        infinity - 1, infinity, magnitudes};
    return sign | list[random_() % std::size(list)];
  }

  static uint64_t from_double(DType dtype, double value) {
    if (dtype == DType::f64) return reference::to_bits(value);
    const auto single = static_cast<float>(value);
    return dtype == DType::f32 ? reference::to_bits(single) : reference::encode(dtype, single);
  }

  const DType dtype_;
  const Op op_;
  std::mt19937 random_;
};
}  // namespace symm::testing
