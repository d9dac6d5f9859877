// The options of calls that have none but a deadline and a place for their failure.
#pragma once

#include <cstdint>

#include "capi/structs.hpp"
#include "symm/symm.h"

SYMM_OPTIONS(symm_call_options, options, failure, SYMM_CALL_OPTIONS_INIT)

namespace symm::capi {
// The time-out of a call; 0: the default. A call that has no use for it calls this all the same,
// which checks the struct.
inline uint64_t timeout_of(const symm_call_options_t* options) {
  return options == nullptr ? 0 : read_options(options).timeout_ms;
}
inline void check_options(const symm_call_options_t* options) { timeout_of(options); }
}  // namespace symm::capi
