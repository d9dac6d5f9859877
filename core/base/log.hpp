// Messages that are not errors go to listeners, which are functions or descriptors, and to stderr
// if SYMM_LOG names a level. A forked child has no listeners. Listeners may be slow, or wait for a
// lock of the program's: so nothing is written with a lock held, and a thread that others depend on
// lets another one deliver.
#pragma once

#include <cstdint>

namespace symm::log {
enum class Level : int32_t { error = 1, warning = 2, info = 3, debug = 4 };
using Callback = void (*)(void* user, int32_t level, const char* message);

uint64_t add_listener(Callback callback, void* user, Level level);
// Writes a line for each message, "warning: ...", whole or not at all. The descriptor is
// duplicated.
uint64_t add_descriptor(int fd, Level level);
// Removes a listener. When this returns, the listener is not running and will not run again. A
// listener may remove itself. Throws Error(not_found) for an unknown number, Error(timeout) if
// the listener was still running at the deadline.
void remove_listener(uint64_t id);

bool enabled(Level level) noexcept;
// From now on another thread delivers the messages that this one writes. It holds a bounded number
// of messages, and counts those that are lost.
void deliver_elsewhere() noexcept;
[[gnu::format(printf, 2, 3)]] void write(Level level, const char* pattern, ...) noexcept;
}  // namespace symm::log
