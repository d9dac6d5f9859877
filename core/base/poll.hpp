// Waiting for what no word announces: descriptors, and files that can only be asked again.
#pragma once

#include <poll.h>

#include <functional>
#include <span>

#include "core/base/deadline.hpp"

namespace symm {
// Calls poll() until a descriptor is ready (returns true) or the deadline passes (false). Throws
// Error(system).
bool poll_until(std::span<pollfd> fds, Deadline deadline);

// Calls `ready` until it returns true, with pauses that grow from 0.1 to 5 ms: for a condition
// that can only be asked again and again, such as a file that another rank will write. False when
// the deadline passes.
bool retry_until(const std::function<bool()>& ready, Deadline deadline);
}  // namespace symm
