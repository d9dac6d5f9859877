// Reads the environment: no other file of the library calls getenv(). Values that cannot be are
// refused.
#include "core/base/environment.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "core/base/error.hpp"

namespace symm {
const char* environment(Variable variable) noexcept {
  // A program that has privileges which its caller lacks (set-user-ID, file capabilities) must not
  // load libraries and write files at its caller's word: to such a program all are unset.
  const char* value = secure_getenv(variable.name());
  return value != nullptr && *value != '\0' ? value : variable.fallback();
}

uint64_t milliseconds(Variable variable) {
  const std::string_view text = environment(variable);
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop != text.data() + text.size() || value == 0) {
    throw Error(Status::invalid_argument, format("%s: '%s' is not a number of milliseconds above 0",
                                              variable.name(), std::string(text).c_str()));
  }
  return value;
}

VariablesKept::~VariablesKept() {
  for (const std::string& name : names()) {
    if (!before_.contains(name)) unsetenv(name.c_str());
  }
}

std::set<std::string> VariablesKept::names() const {
  std::set<std::string> found;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    if (const std::string_view entry = *at; entry.starts_with(prefix_)) {
      found.emplace(entry.substr(0, entry.find('=')));
    }
  }
  return found;
}
}  // namespace symm
