// The tag of a call: what becomes of the user's text, and who sees it.
#include "core/base/call_tag.hpp"

#include <cstring>
#include <string>
#include <thread>

#include "core/backend/stats.hpp"
#include "symm/page.h"
#include "tests/support/test.hpp"

namespace symm {
namespace {
std::string made_of(const std::string& text) {
  const CallTag tagged(text.c_str());
  return CallTag::current() == nullptr ? "none" : CallTag::current();
}

TEST(CallTag, IsCutAtTheEndOfACharacterAndPrintable) {
  EXPECT_EQ(made_of("gradients"), "gradients");
  EXPECT_EQ(made_of(std::string(63, 'a')), std::string(63, 'a'));
  EXPECT_EQ(made_of(std::string(64, 'a')), std::string(63, 'a'));
  EXPECT_EQ(made_of(std::string(1000, 'a')), std::string(63, 'a'));
  EXPECT_EQ(made_of(std::string(62, 'a') + "\u00e9"), std::string(62, 'a'));
  EXPECT_EQ(made_of(std::string(61, 'a') + "\u00e9b"), std::string(61, 'a') + "\u00e9");
  EXPECT_EQ(made_of("a\nb\x7f"), "a b ");
  EXPECT_EQ(made_of("a\xff\xc3"), "a??");
  EXPECT_EQ(made_of(""), "none");
}

TEST(CallTag, IsThatOfTheInnermostCallOfTheThread) {
  EXPECT_EQ(CallTag::current(), nullptr);
  {
    const CallTag outer("outer");
    {
      const CallTag inner("inner");
      EXPECT_STREQ(CallTag::current(), "inner");
      const CallTag none(nullptr);
      EXPECT_EQ(CallTag::current(), nullptr);
    }
    EXPECT_STREQ(CallTag::current(), "outer");
    std::thread([] { EXPECT_EQ(CallTag::current(), nullptr); }).join();
    EXPECT_EQ(with_tag("late", 2), "late; the call of rank 2 has the tag \"outer\"");
  }
  EXPECT_EQ(with_tag("late", 2), "late");
}

TEST(CallTag, IsOnThePageAsLongAsItsCallIs) {
  symm_page_t page{};
  GroupStats stats(page);
  const uint64_t call = GroupStats::call_shown(Collective::allreduce, 8, Algorithm::ll);
  stats.begin(call);
  EXPECT_EQ(page.counts.tag_changes, 0U) << "nothing to write";
  {
    const CallTag tagged("gradients");
    stats.begin(call);
  }
  EXPECT_STREQ(page.counts.tag, "gradients");
  EXPECT_EQ(page.counts.tag_changes, 2U);
  EXPECT_EQ(stats.tag(), "gradients");

  {
    const CallTag tagged(std::string(63, 'b').c_str());
    stats.begin(call);
  }
  EXPECT_EQ(stats.tag(), std::string(63, 'b'));
  {
    const CallTag tagged("x");
    stats.begin(call);
  }
  EXPECT_STREQ(page.counts.tag, "x");
  stats.begin(call);
  EXPECT_EQ(stats.tag(), "") << "a call without a tag";
  EXPECT_EQ(page.counts.tag_changes, 8U);
}
}  // namespace
}  // namespace symm
