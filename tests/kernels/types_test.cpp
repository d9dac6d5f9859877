#include "tests/kernels/reference.hpp"
#include "tests/support/test.hpp"

namespace symm { namespace {
TEST(Types, EveryTypeHasANameOfItsOwnAndASize) {
  std::set<std::string> names;
  for (const DType dtype : reference::kDTypes) {
    EXPECT_TRUE(is_valid(dtype));
    EXPECT_TRUE(names.insert(name_of(dtype)).second) << name_of(dtype);
    const std::string name = name_of(dtype);
    if (dtype == DType::boolean) {
      EXPECT_EQ(name, "bool");
      continue;
    }
    EXPECT_NE(name.find(size_of(dtype) == 1 ? "8" : std::to_string(8 * size_of(dtype))), std::string::npos) << name;
  }
}

TEST(Types, UnknownValuesAreInvalid) {
  EXPECT_FALSE(is_valid(static_cast<DType>(0)));
  EXPECT_FALSE(is_valid(static_cast<DType>(0x0108 + 1)));
  EXPECT_FALSE(is_valid(static_cast<Op>(5)));
  EXPECT_FALSE(is_valid(static_cast<Op>(-1)));
  EXPECT_FALSE(is_valid(static_cast<Collective>(kCollectives)));
  EXPECT_FALSE(is_valid(static_cast<Algorithm>(5)));
  EXPECT_FALSE(is_valid(static_cast<Algorithm>(12)));
}
}}  // namespace symm
