// Functions of the program that give memory back when symm_alloc() is short of it: caches of
// frameworks, imports that nobody needs just now, buffers that can be made again.
#pragma once

#include <cstdint>
#include <memory>

#include "core/backend/backend.hpp"

namespace symm::memory_pressure {
// Is told the back end, the device and the bytes that are wanted. Returns the bytes that it gave
// back; 0: none.
using Callback = uint64_t (*)(void* user, int32_t backend, int32_t device, uint64_t bytes);

uint64_t add(Callback callback, void* user);
// When it returns, the callback is not running and will not run again. A callback may remove
// itself. Throws Error(not_found) for a number that is not there, Error(timeout) if the callback
// was still running after a minute.
void remove(uint64_t id);

// One round of the callbacks, in the order in which they were added. None is asked on a thread that
// is inside one of them.
class Round {
 public:
  Round(BackendKind kind, int device, uint64_t bytes);
  ~Round();
  Round(Round&&) = delete;
  // Asks the callbacks that have not been asked until one has given something back. False if none
  // of them has.
  bool relieve();

 private:
  struct State;
  std::unique_ptr<State> state_;
};
}  // namespace symm::memory_pressure
