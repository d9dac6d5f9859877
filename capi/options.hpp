// The options of calls that have none but a deadline and a place for their failure.
#pragma once

#include <cstdint>

#include "capi/structs.hpp"
#include "core/base/error.hpp"
#include "symm/symm.h"

SYMM_OPTIONS(symm_call_options, options, request, SYMM_CALL_OPTIONS_INIT)

namespace symm::capi {
// The time-out of a call that has no requests; 0: the default. A call that has no use for it calls
// this all the same, which checks the struct.
inline uint64_t timeout_of(const symm_call_options_t* options) {
  if (options == nullptr) return 0;
  const symm_call_options_t given = read_options(options);
  if (given.request != nullptr) {
    throw Error(Status::unsupported, "options.request: this call has no form that does not block");
  }
  return given.timeout_ms;
}
inline void check_options(const symm_call_options_t* options) { timeout_of(options); }
}  // namespace symm::capi
