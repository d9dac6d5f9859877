// The options of the calls that wait.
#pragma once

#include "capi/structs.hpp"

SYMM_OPTIONS(symm_wait_options, options, SYMM_WAIT_OPTIONS_INIT, failure)

namespace symm::capi {
inline symm_wait_options_t read_wait(const symm_wait_options_t* options) { return read_options(options); }
}  // namespace symm::capi
