// The options of the calls that wait.
#pragma once

#include <cstdint>

#include "capi/structs.hpp"
#include "symm/symm.h"

SYMM_OPTIONS(symm_wait_options, options, failure, SYMM_WAIT_OPTIONS_INIT)

namespace symm::capi {
inline uint64_t timeout_of(const symm_wait_options_t* options) {
  return options == nullptr ? 0 : read_options(options).timeout_ms;
}
}  // namespace symm::capi
