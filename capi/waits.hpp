// SPDX-License-Identifier: Apache-2.0
//
// The options of the calls that wait.
#pragma once

#include "capi/structs.hpp"

namespace symm::capi {

inline constexpr symm_wait_options_t kWaitDefaults = SYMM_WAIT_OPTIONS_INIT;
inline constexpr size_t kWaitOptionsSize = SYMM_FIRST_SIZE(symm_wait_options_t, failure);

inline symm_wait_options_t read_wait(const symm_wait_options_t* options) {
  return read_struct(options, kWaitDefaults, kWaitOptionsSize, "options");
}

}  // namespace symm::capi
