// Notices that the other machine of a connection has been silent for too long.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "core/base/deadline.hpp"
#include "core/base/page.hpp"
#include "core/base/peer_fd.hpp"

namespace symm {
// A timer in whose turns the connection sends something, and the time by which the other machine
// must have acknowledged it. Used on the monitor thread, but for start().
class Keepalive {
 public:
  explicit Keepalive(uint64_t silence_ms) : silence_ms_(silence_ms) {}  // 0: no limit

  bool enabled() const noexcept { return silence_ms_ != 0; }
  uint64_t silence_ms() const noexcept { return silence_ms_; }

  // Makes the timer. Throws Error(system).
  void start();
  // Has the kernel look after a socket, too.
  void configure(int socket) const noexcept;

  int timer() const noexcept { return timer_.get(); }
  // The number of turns since the last call; 0 if the timer has not run down.
  uint64_t read_timer() noexcept;
  // Whether the other machine has answered in time. An acknowledgement by its kernel is an
  // answer, for the process there may be stopped. Many `turns` at once mean that this process
  // was stopped, so the time begins again. (TCP_USER_TIMEOUT alone begins to count at a
  // retransmission, which is late if earlier answers were slow.)
  bool answered(int socket, uint64_t turns) noexcept;
  // Whether the last answer came within the four turns before `now`, of which each asks for one. On
  // any thread. The answer may have come after the caller has read the clock.
  bool is_heard(uint64_t now) const noexcept {
    return !enabled() || heard_ns_.load() + 4 * nanoseconds_of(interval_ms()) > now;
  }

 private:
  // Eight turns fit into the silence that is allowed, but for very short and very long ones.
  uint64_t interval_ms() const noexcept { return std::clamp<uint64_t>(silence_ms_ / 8, 20, 250); }

  const uint64_t silence_ms_;
  std::atomic<uint64_t> heard_ns_{now_ns()};
  PeerFd timer_;
  Deadline due_ = Deadline::never();  // for the next answer of the other machine
};
}  // namespace symm
