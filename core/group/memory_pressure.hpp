// Functions of the program that give memory back when symm_alloc() is short of it: caches of
// frameworks, imports that are not in use, buffers that can be made again.
#pragma once

#include <cstdint>
#include <memory>

#include "core/backend/backend.hpp"

namespace symm::memory_pressure {
// A callback gets the back end, the device and the bytes that are wanted. It returns the
// bytes that it gave back; 0: none.
using Callback = uint64_t (*)(void* user, int32_t backend, int32_t device, uint64_t bytes);

uint64_t add(Callback callback, void* user);
// Removes a callback. When this returns, the callback is not running and will not run again. A
// callback may remove itself. Throws Error(not_found) for an unknown number, Error(timeout) if
// the callback was still running after a minute.
void remove(uint64_t id);

// One round of the callbacks, in the order in which they were added. No callback is called on
// a thread that is inside one.
class Round {
 public:
  Round(BackendKind kind, int device, uint64_t bytes);
  ~Round();
  Round(Round&&) = delete;
  // Calls the callbacks that were not called yet until one has given memory back.
  // Returns false if none of them has.
  bool relieve();

 private:
  struct State;
  std::unique_ptr<State> state_;
};
}  // namespace symm::memory_pressure
