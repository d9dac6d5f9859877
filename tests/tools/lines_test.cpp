#include "tests/support/test.hpp"
#include "tools/run/output.hpp"

namespace symm::tool { namespace {
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

TEST(Lines, CarriageReturnsAreProgressOnATerminalOnly) {
  const auto assembled = [](bool terminal, const std::string& text) {
    std::string out;
    LineAssembler("[0] ", terminal).feed(text, out);
    return out;
  };
  EXPECT_EQ(assembled(false, "\n\na\n"), "[0] \n[0] \n[0] a\n");
  EXPECT_EQ(assembled(false, "10%\r20%\rdone\r\n"), "[0] 10%\r20%\rdone\r\n");
  EXPECT_EQ(assembled(true, "10%\rdone\n"), "\033[2K[0] 10%\r\033[2K[0] done\n");
  EXPECT_EQ(assembled(true, "windows\r\n"), "\033[2K[0] windows\n");
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
}}  // namespace symm::tool
