#include "tools/text.hpp"

#include <csignal>
#include <cstdint>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "tests/support/test.hpp"
#include "tools/host/host.hpp"

namespace symm::tool {
namespace {
TEST(Text, BytesBothWays) {
  EXPECT_EQ(format_bytes(8), "8 B");
  EXPECT_EQ(format_bytes(4096), "4 KiB");
  EXPECT_EQ(format_bytes(3 << 19), "1.5 MiB");
  EXPECT_EQ(parse_bytes("8"), 8U);
  EXPECT_EQ(parse_bytes("4k"), 4096U);
  EXPECT_EQ(parse_bytes("4KiB"), 4096U);
  EXPECT_EQ(parse_bytes("1.5M"), uint64_t{3} << 19);
  for (const char* wrong : {"", "K", "4X", "-1", "4KB1", "0.3", "1e30", "nan"}) {
    EXPECT_THROW(parse_bytes(wrong), std::invalid_argument) << wrong;
  }
}

TEST(Text, RanksAndSignals) {
  EXPECT_EQ(format_ranks({3}), "rank 3");
  EXPECT_EQ(format_ranks({0, 1}), "ranks 0, 1");
  EXPECT_EQ(format_ranks({0, 2, 3, 4, 9}), "ranks 0, 2-4, 9");
  EXPECT_EQ(signal_name(SIGSEGV), "SIGSEGV (Segmentation fault)");
  EXPECT_EQ(signal_name(200), "signal 200");
}

TEST(Text, TableAlignsByTerminalColumns) {
  Table table({false, true});
  table.add({"é", "1"});
  table.add({"ab", "100"});
  EXPECT_EQ(table.text(""), "é     1\nab  100\n");
}

TEST(Picture, TreeOfAMachine) {
  EXPECT_EQ(draw(nlohmann::json::parse(R"({"name": "machine", "detail": "8 GiB", "parts": [
                {"name": "package 0", "detail": "CPU", "parts": [
                    {"name": "L3 0", "detail": "32 MiB", "parts": [{"name": "cores 0-3"}]}]},
                {"name": "package 1"}]})")),
      "machine  8 GiB\n"
      "├─ package 0  CPU\n"
      "│  └─ L3 0  32 MiB\n"
      "│     └─ cores 0-3\n"
      "└─ package 1\n");
}
}  // namespace
}  // namespace symm::tool
