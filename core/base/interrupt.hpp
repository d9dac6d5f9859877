// Ending the waits of a thread on the word of its caller, such as an interpreter that has found
// that Ctrl-C was pressed.
#pragma once

#include <cstdint>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"

namespace symm::interrupt {
// Returns nonzero if what the thread waits for is to end.
using Callback = int32_t (*)(void* user);

// Sets the function that the waits of this thread ask, or none. An interruption that has happened
// is over.
void set(Callback callback, void* user) noexcept;

// Asks the function, if the thread has one: after a signal (error == EINTR), and else as often as
// is enough for a signal that came between two sleeps or to another thread. Every sleep of this
// room is followed by a call.
void ask(int error) noexcept;

// The function of this thread. Plain memory, so that there is nothing to make when a thread begins,
// nor to destroy.
struct Asked {
  Callback callback;
  void* user;
  uint64_t next_ns;  // when it is to be asked again
  bool happened;
};
inline constinit thread_local Asked asked{nullptr, nullptr, 0, false};

// Whether the function has said that the waits are to end. From then until set(), every deadline
// counts as passed on this thread.
inline bool happened() noexcept { return asked.happened; }

// The time at which a sleeping thread must wake to ask its function; never if it has none.
Deadline next_look() noexcept;

// Returns the failure of this thread, or that it was interrupted if the failure is a missed
// deadline of an interrupted wait.
inline Failure told(Failure failure) noexcept {
  if (!happened() || failure.status != Status::timeout) return failure;
  // The text is so short that the string needs no memory of its own.
  return {Status::aborted, -1, 0, "interrupted"};
}
}  // namespace symm::interrupt
