// The neutral element of an operator: what a reduction of no operands gives.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/types.hpp"

namespace symm {
constexpr bool is_signed(DType dtype) noexcept {
  return dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64;
}

// The bits of 1 in a type.
constexpr uint64_t one_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f16: return 0x3C00;
    case DType::bf16: return 0x3F80;
    case DType::f32: return 0x3F800000;
    case DType::f64: return 0x3FF0000000000000;
    case DType::f8e4m3: return 0x38;
    case DType::f8e5m2: return 0x3C;
    default: return 1;
  }
}

// The bits of the infinity of a float, or of its largest number if it has none.
constexpr uint64_t most_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f16: return 0x7C00;
    case DType::bf16: return 0x7F80;
    case DType::f32: return 0x7F800000;
    case DType::f64: return 0x7FF0000000000000;
    case DType::f8e4m3: return 0x7E;
    default: return 0x7C;
  }
}

// The bits of the neutral element of a type of one part, in the lowest bytes.
constexpr uint64_t neutral_of(DType dtype, Op op) noexcept {
  const uint64_t ones = ~uint64_t{0} >> (64 - 8 * size_of(dtype));
  const uint64_t top = ones ^ ones >> 1;
  switch (op) {
    case Op::prod: return one_of(dtype);
    case Op::band: return ones;
    case Op::min:
      if (dtype == DType::boolean) return 1;
      if (is_float(dtype)) return most_of(dtype);
      return is_signed(dtype) ? top - 1 : ones;
    case Op::max:
      if (is_float(dtype)) return top | most_of(dtype);
      return is_signed(dtype) ? top : 0;
    default: return 0;
  }
}

// Sixteen bytes of neutral elements, which are one or several.
struct NeutralWords {
  uint64_t low;
  uint64_t high;
};

constexpr NeutralWords neutral_words(DType dtype, Op op) noexcept {
  const DType part = part_of(dtype);
  const size_t bytes = size_of(part);
  uint64_t first = 0;
  uint64_t second = 0;

  if (is_pair(dtype)) {
    // Equal values: the lowest index wins, so that the neutral one is the highest.
    first = neutral_of(part, op == Op::minloc ? Op::min : Op::max);
    second = neutral_of(bytes == 4 ? DType::i32 : DType::i64, Op::min);
  } else {
    first = neutral_of(part, op);
    second = is_complex(dtype) ? 0 : first;
  }
  if (bytes == 8) return {first, second};

  uint64_t word = 0;
  for (size_t at = 0; at < sizeof word; at += bytes) {
    word |= ((at / bytes) % 2 == 0 ? first : second) << 8 * at;
  }
  return {word, word};
}
}  // namespace symm
