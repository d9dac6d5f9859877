// Waits for descriptors, and for conditions that can only be asked again. The pauses of a retry
// grow.
#include "core/base/poll.hpp"

#include <poll.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <span>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/interrupt.hpp"

namespace symm {
namespace {
void nap(uint64_t ns) noexcept {
  const timespec duration = to_timespec(ns);
  interrupt::ask(clock_nanosleep(CLOCK_MONOTONIC, 0, &duration, nullptr));
}
}  // namespace

bool poll_until(std::span<pollfd> fds, Deadline deadline) {
  for (;;) {
    const Deadline slice = std::min(deadline, interrupt::next_look());
    const int ready = poll(fds.data(), static_cast<nfds_t>(fds.size()), slice.remaining_ms());
    if (ready > 0) return true;
    const int error = ready < 0 ? errno : 0;
    if (error != 0 && error != EINTR && error != EAGAIN && error != ENOMEM) {
      throw system_error(error, "poll");
    }

    if (error == ENOMEM) nap(std::min(deadline.remaining_ns(), kMillisecondNs));
    interrupt::ask(error);
    if (deadline.expired()) return false;
  }
}

bool retry_until(const std::function<bool()>& ready, Deadline deadline) {
  uint64_t pause_ns = kMillisecondNs / 10;
  for (;;) {
    if (ready()) return true;
    const uint64_t left = deadline.remaining_ns();
    if (left == 0) return false;

    nap(std::min(left, pause_ns));
    pause_ns = std::min(pause_ns * 3 / 2, 5 * kMillisecondNs);
  }
}
}  // namespace symm
