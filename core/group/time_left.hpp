#pragma once

#include <cstdint>

#include "core/base/deadline.hpp"

namespace symm {
// The time-out of a call on the transport that may take what is left until a deadline.
inline uint64_t left_until(Deadline deadline) {
  return deadline.expired() ? Deadline::kNow : deadline.left_ms();
}
}  // namespace symm
