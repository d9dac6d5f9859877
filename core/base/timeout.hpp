// SPDX-License-Identifier: Apache-2.0
//
// Deadlines that the user did not give.
#pragma once

#include <cstdint>

namespace symm {

inline constexpr uint64_t kDefaultTimeoutMs = 60'000;

// Of an environment variable, in milliseconds; `fallback` if it is not set. Throws Error(invalid_argument) for what is no number
// above 0.
uint64_t timeout_from_environment(const char* variable, uint64_t fallback);

}  // namespace symm
