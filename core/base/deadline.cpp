// Arithmetic of deadlines: a limit that would overflow is none.
#include "core/base/deadline.hpp"

#include <algorithm>
#include <cstdint>

#include "core/base/interrupt.hpp"
#include "core/base/page.hpp"

namespace symm {
Deadline Deadline::after_ms(uint64_t milliseconds) noexcept {
  if (milliseconds == kNow) return Deadline(0);
  const uint64_t now = now_ns();
  if (milliseconds >= (kInfinite - now) / kMillisecondNs) return never();
  return Deadline(now + milliseconds * kMillisecondNs);
}

bool Deadline::expired() const noexcept { return remaining_ns() == 0; }

bool Deadline::expired_for_ms(uint64_t milliseconds) const noexcept {
  // By the clock alone: a wait that is interrupted ends before its deadline.
  const uint64_t now = now_ns();
  return now >= ns_ && now - ns_ >= nanoseconds_of(milliseconds);
}

uint64_t Deadline::remaining_ns() const noexcept {
  if (interrupt::happened()) return 0;
  if (ns_ == kInfinite) return kInfinite;
  const uint64_t now = now_ns();
  return now >= ns_ ? 0 : ns_ - now;
}

int Deadline::remaining_ms() const noexcept {
  const uint64_t left = remaining_ns();
  if (left == kInfinite) return -1;
  return static_cast<int>(
      std::min<uint64_t>((left + kMillisecondNs - 1) / kMillisecondNs, 1U << 30));
}
}  // namespace symm
