// Contexts of one thread that take turns, as the threads of a model do.
//
// A turn makes no system call. swapcontext() sets the mask of signals each time, which took three
// quarters of the time of the tests of CUDA kernels by the model.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>

namespace support {
class Context {
 public:
  // Makes `body` what the first turn of this context begins with. It must not return, but give its
  // last turn away.
  void prepare(void (*body)(), void* stack, size_t bytes);

  // Gives the turn of this context, in which the caller runs, to `next`; returns when it is given
  // back.
  void give_turn_to(Context& next);

 private:
  ucontext_t first_turn_{};
  jmp_buf place_{};
  bool is_prepared_ = false;
};
}  // namespace support
