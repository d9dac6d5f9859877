// symm bench --tune writes a table, and the library follows it: asked by symm_collective_plan(), here in two ranks that are
// threads.
#include <nlohmann/json.hpp>
#include "tests/support/group.hpp"
#include "tests/support/options.hpp"
#include "tests/tools/captured.hpp"

namespace symm::tool { namespace {
class Tune : public testing::Test {
 protected:
  ~Tune() override { unsetenv("SYMM_PLAN_FILE"); }
  std::string file() const { return folder_ / "plan.txt"; }
  std::string text() const {
    std::stringstream out;
    out << std::ifstream(file()).rdbuf();
    return out.str();
  }
  support::TemporaryDirectory folder_;
};

Captured on_ranks(int ranks, const Words& command) {
  return capture(Words{SYMM_TOOL, "run", "-n", std::to_string(ranks), "--no-prefix", "--timeout", "90", "--"} + command);
}

// "key = value" of the last line that has it.
uint64_t value_of(const std::string& text, const std::string& key) {
  const size_t at = text.rfind("\n" + key + " = ");
  EXPECT_NE(at, std::string::npos) << key << " in\n" << text;
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + key.size() + 4, nullptr, 10);
}

// The plan of an all-reduce of so many bytes of symmetric memory, in a group of two.
std::vector<symm_algorithm_t> plans(const std::vector<size_t>& sizes) {
  std::vector<symm_algorithm_t> found;
  support::as_threads(2, [&](int rank, const symm::Group& group) {
    const support::Block block = support::allocate(group, size_t{4} << 20);
    for (const size_t bytes : sizes) {
      symm_plan_info_t plan{};
      plan.struct_size = sizeof plan;
      EXPECT_EQ(symm_collective_plan(group.get(),
                    support::call_of(
                        SYMM_COLLECTIVE_ALLREDUCE, block.at<char>(rank), block.at<char>(rank), bytes, SYMM_DTYPE_U8, SYMM_OP_SUM),
                    nullptr, &plan),
          SYMM_OK);
      if (rank == 0) found.push_back(plan.algorithm);
    }
    EXPECT_EQ(symm_group_finalize(group.get(), nullptr), SYMM_OK);
  });
  return found;
}

TEST_F(Tune, WritesATableThatTheLibraryFollows) {
  const Captured result = on_ranks(2, {SYMM_TOOL, "bench", "--tune", "--backend", "host", "--out", file(), "-b", "8", "-e", "64K",
                                          "-f", "8", "-n", "5", "-w", "1"});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_TRUE(contains(result.out, "wrote " + file())) << result.out;
  EXPECT_TRUE(contains(text(), "[host 2]")) << text();
  expect_said(text(), {"# ", " 8 ", " 56 ", " 64 ", " 32768 "});
  const uint64_t ll = value_of(text(), "ll");
  const uint64_t one_shot = value_of(text(), "one_shot");
  EXPECT_LE(ll, 56U);
  EXPECT_LE(ll, one_shot);

  setenv("SYMM_PLAN_FILE", file().c_str(), 1);
  std::vector<size_t> sizes;
  std::vector<symm_algorithm_t> expected;
  for (const size_t bytes : {size_t{1}, static_cast<size_t>(ll), static_cast<size_t>(ll) + 1, static_cast<size_t>(one_shot),
           static_cast<size_t>(one_shot) + 1, size_t{4} << 20}) {
    if (bytes == 0) continue;
    sizes.push_back(bytes);
    expected.push_back(bytes <= ll ? SYMM_ALGORITHM_LL : bytes <= one_shot ? SYMM_ALGORITHM_ONE_SHOT : SYMM_ALGORITHM_TWO_SHOT);
  }
  EXPECT_EQ(plans(sizes), expected) << text();
}

TEST_F(Tune, StandardOutputIsTheTableAlone) {
  const Captured result =
      on_ranks(3, {SYMM_TOOL, "bench", "--tune", "--backend", "host", "-e", "4K", "-f", "32", "-n", "3", "-w", "0"});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  std::ofstream(file()) << result.out;
  EXPECT_TRUE(contains(result.out, "\n[host 3]\n")) << result.out;
  const std::string use = "SYMM_PLAN_FILE=" + file() + " exec " + SYMM_TOOL + " bench allreduce -b 2K -e 2K -n 1";
  EXPECT_EQ(on_ranks(3, {"sh", "-c", use}).status, 0);
}

TEST_F(Tune, WrongUseIsRefused) {
  EXPECT_EQ(capture({SYMM_TOOL, "bench", "allreduce", "--tune"}).status, 2);
  EXPECT_EQ(capture({SYMM_TOOL, "bench", "--tune", "--json"}).status, 2);
  EXPECT_EQ(capture({SYMM_TOOL, "bench", "allreduce", "--out", file()}).status, 2);
  EXPECT_EQ(capture({SYMM_TOOL, "bench", "--tune", "--backend", "tpu"}).status, 2);
  EXPECT_EQ(capture({SYMM_TOOL, "bench"}).status, 2);
  expect_end(capture({SYMM_TOOL, "bench", "--tune", "--backend", "host"}), 1, {"--tune needs 2 ranks or more"});
  expect_end(on_ranks(2, {SYMM_TOOL, "bench", "--tune", "--backend", "host", "-e", "8", "-n", "1", "--out", "/nowhere/plan"}), 1,
      {"cannot write /nowhere/plan"});
}
}}  // namespace symm::tool
