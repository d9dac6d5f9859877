#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "tests/support/test.hpp"

namespace {
using namespace symm;

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
