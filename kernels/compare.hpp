// How the words by which ranks signal are written and compared, on the host and on devices.
#pragma once

#include <cstdint>

#include "kernels/types.hpp"

namespace symm {
// Values are those of symm.h.
enum class SignalOp : int32_t { add, set };
enum class Compare : int32_t { eq, ne, lt, le, gt, ge };

SYMM_HOST_DEVICE constexpr bool is_valid(SignalOp op) {
  return op == SignalOp::add || op == SignalOp::set;
}

SYMM_HOST_DEVICE constexpr bool is_valid(Compare compare) {
  return compare >= Compare::eq && compare <= Compare::ge;
}

// Does `word` compare with `value` as asked?
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

// The sign of a comparison, for messages.
constexpr const char* sign_of(Compare compare) {
  constexpr const char* kSigns[] = {"==", "!=", "<", "<=", ">", ">="};
  return is_valid(compare) ? kSigns[static_cast<int>(compare)] : "?";
}
}  // namespace symm
