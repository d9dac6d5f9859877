#pragma once

#include <cstdint>

#include "core/base/deadline.hpp"

namespace symm {
// The time-out of a call on the transport that may take what is left until a deadline.
inline uint64_t left_until(Deadline deadline) {
  const uint64_t left_ns = deadline.remaining_ns();
  if (left_ns == Deadline::kInfinite) return Deadline::kInfinite;
  return left_ns == 0 ? Deadline::kNow : (left_ns - 1) / kMillisecondNs + 1;
}
}  // namespace symm
