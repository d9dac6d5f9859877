// SPDX-License-Identifier: Apache-2.0
//
// The border between C++ and C: no exception passes it, and every failure leaves a message.
#pragma once

#include <symm/symm.h>

#include "core/base/error.hpp"

namespace symm::capi {

// Remember the failure for symm_last_error() and symm_last_failure(), and return its status. Newlines become spaces: a message is
// one line.
symm_status_t fail(const Failure& failure) noexcept;

template <class Function>
symm_status_t guard(Function&& function) noexcept {
  try {
    function();
    return SYMM_OK;
  } catch (...) {
    return fail(current_failure());
  }
}

template <class T>
T& require(T* pointer, const char* argument) {
  if (pointer == nullptr) throw Error(Status::invalid_argument, format("%s: is NULL", argument));
  return *pointer;
}

// Write what `make` returns to *out, which is checked before anything is done.
template <class T, class Make>
symm_status_t produce(T* out, const char* argument, Make&& make) noexcept {
  return guard([&] {
    require(out, argument);
    *out = make();
  });
}

}  // namespace symm::capi
