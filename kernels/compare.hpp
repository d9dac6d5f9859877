// Writes, changes and compares the words by which ranks signal, on the host and on devices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/types.hpp"

namespace symm {
// Values are those of symm.h.
enum class SignalOp : int32_t { add, set };
enum class AtomicOp : int32_t { fetch, add, band, bor, bxor, swap, compare_swap };
enum class Compare : int32_t { eq, ne, lt, le, gt, ge };

// Copies of a value of 1, 2, 4 or 8 bytes, which are the lower ones of `value`.
struct Copies {
  uint64_t value = 0;
  size_t bytes = 0;  // of one
  size_t count = 0;

  size_t all_bytes() const { return bytes * count; }
};

// A change of a word of 4 or 8 bytes. For FETCH `value` is 0, and for all but COMPARE_SWAP
// `compare` is.
struct AtomicChange {
  AtomicOp op{};
  size_t bytes = 0;
  uint64_t value = 0;
  uint64_t compare = 0;
};

SYMM_HOST_DEVICE constexpr bool is_valid(SignalOp op) {
  return op == SignalOp::add || op == SignalOp::set;
}

SYMM_HOST_DEVICE constexpr bool is_valid(AtomicOp op) {
  return op >= AtomicOp::fetch && op <= AtomicOp::compare_swap;
}

SYMM_HOST_DEVICE constexpr bool is_valid(Compare compare) {
  return compare >= Compare::eq && compare <= Compare::ge;
}

// Whether `word` compares with `value` as asked.
SYMM_HOST_DEVICE constexpr bool holds(uint64_t word, Compare compare, uint64_t value) {
  switch (compare) {
    case Compare::eq: return word == value;
    case Compare::ne: return word != value;
    case Compare::lt: return word < value;
    case Compare::le: return word <= value;
    case Compare::gt: return word > value;
    case Compare::ge: return word >= value;
  }
  return false;
}

// Whether a word that only grows, and may wrap, has reached a value.
SYMM_HOST_DEVICE constexpr bool has_reached(uint32_t word, uint32_t value) {
  return static_cast<int32_t>(word - value) >= 0;
}

// The sign of a comparison, for messages.
constexpr const char* sign_of(Compare compare) {
  constexpr const char* kSigns[] = {"==", "!=", "<", "<=", ">", ">="};
  return is_valid(compare) ? kSigns[static_cast<int>(compare)] : "?";
}
}  // namespace symm
