// Reads the environment: no other file of the library calls getenv(). Values that cannot be are
// refused.
#include "core/base/environment.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "core/base/error.hpp"

namespace symm {
namespace {
[[noreturn]] void refuse(Variable variable, const std::string& why) {
  throw Error(Status::invalid_argument,
      format("%s: '%s' %s", variable.name(), environment(variable), why.c_str()));
}

template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  Number value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

// Null: unset. A program that has privileges which its caller lacks (set-user-ID, file
// capabilities) must not load libraries and write files at its caller's word: to such a program all
// are unset.
const char* value_now(const EnvironmentRow& row) noexcept { return secure_getenv(row.name); }

using Values = std::array<std::string, std::size(kEnvironment)>;

// Never destroyed: a thread may read them while the process ends.
const Values* find_values() noexcept {
  alignas(Values) static std::byte place[sizeof(Values)];
  auto* const values = new (place) Values;
  for (const EnvironmentRow& row : kEnvironment) {
    const char* const value = row.fallback != nullptr ? value_now(row) : nullptr;
    if (value != nullptr) (*values)[Variable(row).index()] = value;
  }
  return values;
}

const Values* const values_at_load = find_values();
thread_local bool reads_at_load = false;
}  // namespace

const char* environment(Variable variable) noexcept {
  const char* value =
      reads_at_load ? (*values_at_load)[variable.index()].c_str() : value_now(variable.row());
  return value != nullptr && *value != '\0' ? value : variable.fallback();
}

EnvironmentAtLoad::EnvironmentAtLoad(bool is_wanted) noexcept : before_(reads_at_load) {
  reads_at_load = before_ || is_wanted;
}

EnvironmentAtLoad::~EnvironmentAtLoad() { reads_at_load = before_; }

std::string_view one_of(Variable variable, std::initializer_list<std::string_view> values) {
  const std::string_view text = environment(variable);
  if (text == variable.fallback()) return text;
  if (std::find(values.begin(), values.end(), text) != values.end()) return text;

  std::string why = "is neither ";
  for (const std::string_view& value : values) {
    if (&value != values.begin()) why += &value == values.end() - 1 ? " nor " : ", ";
    why.append("'").append(value).append("'");
  }
  refuse(variable, why);
}

bool is_on(Variable variable) { return one_of(variable, {"0", "1"}) == "1"; }

std::optional<uint32_t> number(Variable variable) {
  const std::string_view text = environment(variable);
  const auto value = whole_number<uint32_t>(text);
  if (!text.empty() && !value) {
    refuse(variable, format("is no whole number from 0 to %u", UINT32_MAX));
  }
  return value;
}

uint64_t milliseconds(Variable variable) {
  const auto value = whole_number<uint64_t>(environment(variable));
  if (!value || *value == 0) refuse(variable, "is not a number of milliseconds above 0");
  return *value;
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
