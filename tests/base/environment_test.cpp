#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "tests/support/test.hpp"

namespace {
using namespace symm;

std::string page() {
  std::string text =
      "# Environment variables\n\n"
      "All that the library and its tools read; `symm info --env` prints them with their values. An empty\n"
      "variable counts as unset. This page is written by a test from `core/base/environment.inc`.\n";
  for (const EnvironmentRow& row : kEnvironment) {
    const std::string name = row.name;
    if (row.fallback == nullptr) {
      text += "\n## " + name + "\n\n| Variable | Default | Meaning |\n|---|---|---|\n";
    } else {
      text += "| `" + name + "` | " + (*row.fallback == '\0' ? "" : std::string("`") + row.fallback + "` ") + "| " + row.meaning +
              " |\n";
    }
  }
  return text;
}

// SYMM_UPDATE_GOLDEN=1 rewrites the page.
TEST(Environment, ThePageSaysWhatTheTableSays) {
  const std::string path = SYMM_SOURCE "/docs/environment.md";
  if (std::getenv("SYMM_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << page();
  std::ifstream file(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), page());
}

TEST(Environment, EmptyIsUnset) {
  setenv("SYMM_CREATE_TIMEOUT_MS", "", 1);
  EXPECT_EQ(milliseconds("SYMM_CREATE_TIMEOUT_MS"), 300'000U);
  setenv("SYMM_CREATE_TIMEOUT_MS", "7", 1);
  EXPECT_EQ(milliseconds("SYMM_CREATE_TIMEOUT_MS"), 7U);
  for (const char* bad : {"0", "-1", "7 ", "x", "99999999999999999999"}) {
    setenv("SYMM_CREATE_TIMEOUT_MS", bad, 1);
    EXPECT_THROW(milliseconds("SYMM_CREATE_TIMEOUT_MS"), Error) << bad;
  }
  unsetenv("SYMM_CREATE_TIMEOUT_MS");
  EXPECT_STREQ(environment("SYMM_BOOTSTRAP"), "env://");
}
}  // namespace
