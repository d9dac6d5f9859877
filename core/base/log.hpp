// SPDX-License-Identifier: Apache-2.0
//
// Where messages that are not errors go: the user's callback, or stderr if SYMM_LOG names a level, or nowhere.
#pragma once

#include <cstdint>

namespace symm::log {

enum class Level : int32_t {
  error = 1,
  warning = 2,
  info = 3,
  debug = 4
};
using Callback = void (*)(void* user, int32_t level, const char* message);

void set_callback(Callback callback, void* user, Level level);
bool enabled(Level level) noexcept;
[[gnu::format(printf, 2, 3)]] void write(Level level, const char* pattern, ...) noexcept;

}  // namespace symm::log
