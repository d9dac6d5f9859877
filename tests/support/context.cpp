#include "tests/support/context.hpp"

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>

namespace support {
void Context::prepare(void (*body)(), void* stack, size_t bytes) {
  getcontext(&first_turn_);
  first_turn_.uc_stack.ss_sp = stack;
  first_turn_.uc_stack.ss_size = bytes;
  first_turn_.uc_link = nullptr;
  makecontext(&first_turn_, body, 0);
  is_prepared_ = true;
}

void Context::give_turn_to(Context& next) {
  if (_setjmp(place_) != 0) return;
  if (!next.is_prepared_) _longjmp(next.place_, 1);
  next.is_prepared_ = false;
  setcontext(&next.first_turn_);
}
}  // namespace support
