#include "core/backend/mismatch.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/test.hpp"

namespace symm {
namespace {
// The places of the right call and of the one to blame.
std::optional<std::pair<size_t, size_t>> found_in(const std::string& letters) {
  const auto found = mismatch_among(std::vector<char>(letters.begin(), letters.end()));
  if (!found) return std::nullopt;
  return std::pair(found->right, found->wrong);
}

TEST(Mismatch, IsOfTheLowestRankThatDiffersFromMost) {
  EXPECT_EQ(found_in("aab"), std::pair(size_t{0}, size_t{2}));
  EXPECT_EQ(found_in("baa"), std::pair(size_t{1}, size_t{0}));
  EXPECT_EQ(found_in("acbb"), std::pair(size_t{2}, size_t{0}));
  EXPECT_EQ(found_in("aacb"), std::pair(size_t{0}, size_t{2}));
}

TEST(Mismatch, InATieTheLowestRankIsRight) {
  EXPECT_EQ(found_in("ab"), std::pair(size_t{0}, size_t{1}));
  EXPECT_EQ(found_in("baab"), std::pair(size_t{0}, size_t{1}));
  EXPECT_EQ(found_in("cabba"), std::pair(size_t{1}, size_t{0}));
}

TEST(Mismatch, IsNoneWhereAllAreEqual) {
  EXPECT_EQ(found_in(""), std::nullopt);
  EXPECT_EQ(found_in("a"), std::nullopt);
  EXPECT_EQ(found_in("aaaa"), std::nullopt);
}
}  // namespace
}  // namespace symm
