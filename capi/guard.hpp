// SPDX-License-Identifier: Apache-2.0
//
// The border between C++ and C: no exception passes it, and every failure leaves a message.
#pragma once

#include <symm/symm.h>

#include <new>

#include "core/error.hpp"

namespace symm::capi {

// Remember the message for symm_last_error() and return the status. Newlines become spaces: a message is one line.
symm_status_t fail(Status status, const char* message) noexcept;

template <class Function>
symm_status_t guard(Function&& function) noexcept {
  try {
    function();
    return SYMM_OK;
  } catch (const Error& error) {
    return fail(error.status(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(Status::out_of_memory, "out of host memory");
  } catch (const std::exception& error) {
    return fail(Status::internal, error.what());
  } catch (...) {
    return fail(Status::internal, "unknown C++ exception");
  }
}

template <class T>
T& require(T* pointer, const char* argument) {
  if (pointer == nullptr) throw Error(Status::invalid_argument, format("%s: is NULL", argument));
  return *pointer;
}

}  // namespace symm::capi
