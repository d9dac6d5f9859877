// Points in time at which waits give up.
#pragma once

#include <time.h>

#include <compare>
#include <cstdint>
#include <optional>

namespace symm {
// A point in time (CLOCK_MONOTONIC) after which a wait gives up.
class Deadline {
 public:
  static constexpr uint64_t kInfinite = UINT64_MAX;
  // An argument of after_ms(): the deadline has passed already.
  static constexpr uint64_t kNow = UINT64_MAX - 1;
  static Deadline after_ms(uint64_t milliseconds) noexcept;
  static Deadline never() noexcept { return Deadline(kInfinite); }
  auto operator<=>(const Deadline&) const noexcept =
      default;  // NOLINT(modernize-use-nullptr): false alarm of clang-tidy 14
  bool expired() const noexcept;
  // Whether the deadline passed at least so long ago.
  bool expired_for_ms(uint64_t milliseconds) const noexcept;
  // 0 when expired, kInfinite for never(). On a thread whose waits are interrupted every deadline
  // has passed.
  uint64_t remaining_ns() const noexcept;
  // As a timeout: at least 1, kInfinite for never().
  uint64_t left_ms() const noexcept {
    const uint64_t ns = remaining_ns();
    return ns == kInfinite ? ns : ns / 1'000'000 + 1;
  }
  int remaining_ms() const noexcept;  // for poll(): rounded up, -1 for never(), capped at 2^30

 private:
  explicit Deadline(uint64_t ns) noexcept : ns_(ns) {}
  uint64_t ns_;
};

inline constexpr uint64_t kMillisecondNs = 1'000'000;

// A timeout in nanoseconds; UINT64_MAX for one that never comes.
constexpr uint64_t nanoseconds_of(uint64_t timeout_ms) noexcept {
  return timeout_ms > UINT64_MAX / kMillisecondNs ? UINT64_MAX : timeout_ms * kMillisecondNs;
}

inline timespec to_timespec(uint64_t ns) noexcept {
  return {static_cast<time_t>(ns / 1'000'000'000U), static_cast<long>(ns % 1'000'000'000U)};
}

// A deadline whose clock starts when the deadline is first asked for. Reading the clock would cost
// a fifth of a small collective, and a wait that succeeds while it spins never needs the clock.
class LazyDeadline {
 public:
  explicit LazyDeadline(uint64_t timeout_ms) noexcept : timeout_ms_(timeout_ms) {}
  Deadline get() noexcept {
    if (!deadline_) deadline_ = Deadline::after_ms(timeout_ms_);
    return *deadline_;
  }
  uint64_t timeout_ms() const noexcept { return timeout_ms_; }

 private:
  uint64_t timeout_ms_;
  std::optional<Deadline> deadline_;
};
}  // namespace symm
