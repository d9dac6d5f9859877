#include "tools/bench/thresholds.hpp"
#include "tests/support/test.hpp"

namespace symm::tool { namespace {
Ladder ladder(std::vector<Measured> sizes) {
  return {"allreduce", {{"ll", "ll"}, {"one-shot", "one_shot"}, {"two-shot", ""}}, std::move(sizes)};
}

std::vector<uint64_t> bytes_of(const Ladder& of) {
  std::vector<uint64_t> out;
  for (const Threshold& threshold : thresholds(of)) out.push_back(threshold.bytes);
  return out;
}

TEST(Thresholds, TheFastestAtEachSize) {
  const Ladder of = ladder({{8, {1, 2, 3}}, {64, {0, 2, 3}}, {512, {0, 3, 3.5}}, {4096, {0, 9, 5}}, {32768, {0, 80, 20}}});
  EXPECT_EQ(divide(of), (std::vector<size_t>{0, 1, 1, 2, 2}));
  EXPECT_EQ(bytes_of(of), (std::vector<uint64_t>{8, 512}));
}

TEST(Thresholds, OneStrayFigureDecidesNothing) {
  // Two-shot seems faster at 64 bytes, and one-shot at 32 KB, by a little; both are out of line.
  const Ladder of = ladder({{8, {1, 2, 3}}, {64, {0, 2, 1.8}}, {512, {0, 2, 3}}, {4096, {0, 9, 5}}, {32768, {0, 19, 20}}});
  EXPECT_EQ(divide(of), (std::vector<size_t>{0, 1, 1, 2, 2}));
}

TEST(Thresholds, AFactorCountsNotADifference) {
  // Loses 30 % at 64 bytes to gain 10 % at 1 MB, which is far more microseconds.
  const Ladder of = ladder({{64, {0, 1.3, 1}}, {1 << 20, {0, 90, 100}}});
  EXPECT_EQ(divide(of), (std::vector<size_t>{2, 2}));
}

TEST(Thresholds, ACandidateMayNeverBeUsed) {
  const Ladder of = ladder({{8, {3, 2, 1}}, {64, {0, 2, 1}}});
  EXPECT_EQ(bytes_of(of), (std::vector<uint64_t>{0, 0}));
  const Ladder middle = ladder({{8, {1, 2, 3}}, {64, {0, 3, 2}}});
  EXPECT_EQ(bytes_of(middle), (std::vector<uint64_t>{8, 8}));
}

TEST(Thresholds, SaysWhereNothingLargerWasMeasured) {
  const auto found = thresholds(ladder({{8, {1, 2, 3}}, {64, {0, 1, 2}}}));
  EXPECT_FALSE(found[0].is_end);
  EXPECT_EQ(found[1].bytes, 64U);
  EXPECT_TRUE(found[1].is_end);
}

TEST(Thresholds, NoSizesAtAll) { EXPECT_EQ(bytes_of(ladder({})), (std::vector<uint64_t>{0, 0})); }

TEST(Thresholds, TextIsATableWithFigures) {
  TuneReport report{"0.1.0", "2026-01-02", "host", "A Processor", 3, {}};
  report.ladders.push_back(ladder({{8, {1, 2, 3}}, {64, {0, 2, 3}}, {4096, {0, 9.125, 5}}}));
  const std::string text = plan_text(report);
  EXPECT_NE(text.find("\n[host 3]\nll = 8\none_shot = 64\n"), std::string::npos) << text;
  EXPECT_NE(text.find("symm 0.1.0, 2026-01-02: 3 ranks, host back end, A Processor"), std::string::npos) << text;
  EXPECT_NE(text.find("1.00*"), std::string::npos) << text;
  EXPECT_NE(text.find("9.1"), std::string::npos) << text;
  // All but the section are comments.
  size_t lines = 0;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) lines += text[at] == '#' || text[at] == '\n' ? 0 : 1;
  EXPECT_EQ(lines, 3U) << text;
  EXPECT_EQ(text.find("Not steady"), std::string::npos);
  report.ladders[0].sizes[1].steady = false;
  EXPECT_NE(plan_text(report).find("# Not steady: at 1 of 3 sizes"), std::string::npos) << plan_text(report);
}
}}  // namespace symm::tool
