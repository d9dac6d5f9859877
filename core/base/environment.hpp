// The environment is read here and nowhere else, by the names of the tables in
// docs/environment.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace symm {
struct EnvironmentRow {
  const char* name;      // or the title of a section
  const char* fallback;  // "": none; null: a section begins
  const char* meaning;
};

inline constexpr EnvironmentRow kEnvironment[] = {
#define SYMM_SECTION(title) {title, nullptr, nullptr},
#define SYMM_VARIABLE(name, fallback, meaning) {name, fallback, meaning},
#include "environment.inc"
};

// A variable of the table; the compiler refuses any other.
class Variable {
 public:
  consteval Variable(const char* name) : row_(find(name)) {}
  constexpr explicit Variable(const EnvironmentRow& row) : row_(&row) {}
  constexpr const char* name() const { return row_->name; }
  constexpr const char* fallback() const { return row_->fallback; }
  constexpr operator const char*() const { return name(); }
  constexpr const EnvironmentRow& row() const { return *row_; }
  // The place in the table.
  constexpr size_t index() const { return static_cast<size_t>(row_ - kEnvironment); }

 private:
  static consteval const EnvironmentRow* find(std::string_view name) {
    for (const EnvironmentRow& row : kEnvironment) {
      if (row.fallback != nullptr && row.name == name) return &row;
    }
    throw "not in docs/environment.md";
  }
  const EnvironmentRow* row_;
};

// The value, or the default of a variable that is unset or empty; never null. All are unset in a
// program with privileges that its caller lacks.
const char* environment(Variable variable) noexcept;
// While one is there, the variables of its thread are those that the library found when it was
// loaded: the program may change its environment meanwhile, and nobody may read it beside that.
class EnvironmentAtLoad {
 public:
  explicit EnvironmentAtLoad(bool is_wanted) noexcept;
  ~EnvironmentAtLoad();
  EnvironmentAtLoad(EnvironmentAtLoad&&) = delete;

 private:
  const bool before_;
};

// The value, which is one of `values`, or the default. Throws Error(invalid_argument) if it is
// anything else: what a variable does not know is not guessed at.
std::string_view one_of(Variable variable, std::initializer_list<std::string_view> values);
// Whether the value is 1, and not 0 or unset.
bool is_on(Variable variable);
// The value as a whole number; nothing if it is unset. Throws Error(invalid_argument) unless it is
// one, of 32 bits.
std::optional<uint32_t> number(Variable variable);
// The value as a number of milliseconds. Throws Error(invalid_argument) unless it is a number above
// 0.
uint64_t milliseconds(Variable variable);

// At its end, removes the variables that begin with `prefix` and were not set at its beginning:
// another library may set them meanwhile.
class VariablesKept {
 public:
  explicit VariablesKept(std::string_view prefix) : prefix_(prefix), before_(names()) {}
  ~VariablesKept();
  VariablesKept(VariablesKept&&) = delete;

 private:
  std::set<std::string> names() const;
  const std::string_view prefix_;
  const std::set<std::string> before_;
};
}  // namespace symm
