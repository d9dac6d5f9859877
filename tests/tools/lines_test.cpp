#include "tests/support/test.hpp"
#include "tools/run/output.hpp"

namespace symm::tool {
namespace {
TEST(Lines, OnlyWholeLinesLeave) {
  LineAssembler lines("[1] ", false);
  std::string out;
  lines.feed("hel", out);
  EXPECT_EQ(out, "");
  lines.feed("lo\nwor", out);
  EXPECT_EQ(out, "[1] hello\n");
  lines.finish(out);
  EXPECT_EQ(out, "[1] hello\n[1] wor\n");
  lines.finish(out);
  EXPECT_EQ(out, "[1] hello\n[1] wor\n");
}

std::string assembled(const std::string& prefix, bool terminal, const std::string& text) {
  std::string out;
  LineAssembler(prefix, terminal).feed(text, out);
  return out;
}

TEST(Lines, EmptyLinesKeepTheirPrefix) { EXPECT_EQ(assembled("[0] ", false, "\n\na\n"), "[0] \n[0] \n[0] a\n"); }

TEST(Lines, CarriageReturnsPassUnchangedIntoFiles) {
  EXPECT_EQ(assembled("", false, "10%\r20%\rdone\r\n"), "10%\r20%\rdone\r\n");
}

TEST(Lines, ProgressIsShownInPassingOnATerminal) {
  LineAssembler lines("[0] ", true);
  std::string out;
  lines.feed("10%\rdone\n", out);
  EXPECT_EQ(out, "\033[2K[0] 10%\r\033[2K[0] done\n");
  out.clear();
  lines.feed("windows\r\n", out);
  EXPECT_EQ(out, "\033[2K[0] windows\n");
}

TEST(Lines, EndlessLineIsBroken) {
  LineAssembler lines("", false);
  std::string out;
  const std::string piece(LineAssembler::longest_line / 2 + 1, 'x');
  lines.feed(piece, out);
  EXPECT_TRUE(out.empty());
  lines.feed(piece, out);
  EXPECT_EQ(out.size(), LineAssembler::longest_line + 1);
  EXPECT_EQ(out.back(), '\n');
  out.clear();
  lines.finish(out);
  EXPECT_EQ(out, "xx\n");
}
}  // namespace
}  // namespace symm::tool
