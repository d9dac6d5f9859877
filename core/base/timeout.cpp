// SPDX-License-Identifier: Apache-2.0
#include "core/base/timeout.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "core/base/error.hpp"

namespace symm {

uint64_t timeout_from_environment(const char* variable, uint64_t fallback) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return fallback;
  uint64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || stop != end || value == 0) {
    throw Error(Status::invalid_argument, format("%s: '%s' is no number of milliseconds above 0", variable, text));
  }
  return value;
}

}  // namespace symm
