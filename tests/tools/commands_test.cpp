// The commands symm info, doctor, bench and the demo, as their users see them.
#include <signal.h>
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

#include <nlohmann/json.hpp>

#include "tests/support/footprint.hpp"
#include "tests/support/sanitizers.hpp"
#include "tests/tools/captured.hpp"
#include "tools/host/host.hpp"
#include "tools/run/processes.hpp"

namespace symm::tool {
namespace {
using nlohmann::json;

Captured on_ranks(int ranks, const Words& command) {
  return capture(Words{SYMM_TOOL, "run", "-n", std::to_string(ranks), "--no-prefix", "--timeout",
                     "100", "--"} +
                 command);
}

Captured bench(int ranks, const Words& arguments) {
  return on_ranks(ranks, Words{SYMM_TOOL, "bench"} + arguments);
}

TEST(Info, JsonSaysWhatIsHere) {
  const json info = json::parse(out_of(capture({SYMM_TOOL, "info", "--json"})));
  EXPECT_EQ(info["library"]["version"], info["library"]["header_version"]);
  EXPECT_EQ(capture({SYMM_TOOL, "--version"}).out,
      "symm " + info["library"]["version"].get<std::string>() + "\n");
  EXPECT_TRUE(info["library"]["build"].contains("compiler"));
  ASSERT_EQ(info["back_ends"].size(), 2U);
  EXPECT_EQ(info["back_ends"][0]["name"], "host");
  EXPECT_TRUE(info["back_ends"][0]["available"]);
  EXPECT_GT(info["back_ends"][0]["devices"][0]["memory_bytes"], 0);

  for (const json& back_end : info["back_ends"]) {
    EXPECT_NE(back_end["available"].get<bool>(), back_end.contains("reason")) << back_end;
  }

  EXPECT_FALSE(info["host"]["parts"].empty());
  EXPECT_TRUE(info["kernel"]["features"]["memfd with seals"]["available"]);
  EXPECT_GT(info["limits"]["processors"], 0);
}

TEST(Info, TextHasAPicture) {
  expect_said(out_of(capture({SYMM_TOOL, "info"})),
      {"Back ends", "host", "cuda", "Devices", "Host", "└─", "core", "processors", "Kernel: Linux",
          "futex_waitv", "Limits"});
}

TEST(Info, EnvironmentHasValuesAndDefaults) {
  expect_said(out_of(capture({"env", "SYMM_TIMEOUT_MS=1234", SYMM_TOOL, "info", "--env"})),
      {"SYMM_TIMEOUT_MS", " 1234 ", "(300000)", "SYMM_SPIN", "SYMM_DIR", "Slurm: rank."});
}

// Shared memory, results and what is written to the standard output are files.
TEST(Tool, ALimitOnFileSizesIsAnErrorAndNoSignal) {
  const auto limited = [](const std::string& command) {
    return capture({"sh", "-c", "ulimit -f 0; \"$0\" " + command, SYMM_TOOL});
  };
  const Captured doctor = limited("doctor");
  EXPECT_EQ(doctor.status, 1) << doctor.err;
  expect_said(doctor.out, {"RLIMIT_FSIZE", "ulimit -f unlimited"});
  EXPECT_EQ(limited("info").status, 0);

  const support::TemporaryDirectory folder;
  const std::string file = folder / "out";
  expect_end(limited("info >" + file), 1, {"standard output"});
  expect_end(limited("info --env >" + file), 1, {"standard output"});
  expect_end(limited("run -n 1 --trace " + file + " -- true"), 0, {"written to its end"});
  // The signal is the launcher's own affair: what it runs is ended by it as ever.
  expect_end(limited("run -n 1 -- sh -c 'echo text >" + file + "'"), 128 + SIGXFSZ, {"SIGXFSZ"});
}

// What the tool opens is never what it writes its text to.
TEST(Tool, AClosedOutputIsAnErrorAndNoOtherFile) {
  const support::TemporaryDirectory folder;
  const std::string file = folder / "plot.svg";
  const Captured closed = capture({"sh", "-c",
      "exec \"$0\" bench allreduce -b 64 -e 64 -n 1 --plot " + file + " >&-", SYMM_TOOL});
  expect_end(closed, 1, {"standard output"});
  std::ifstream plot(file);
  std::string begin;
  std::getline(plot, begin);
  EXPECT_TRUE(begin.starts_with("<svg")) << begin;
}

TEST(Manual, HasAllCommandsAndIsWhatManReads) {
  expect_said(out_of(capture({SYMM_TOOL, "--man"})),
      {".TH SYMM 1", "\n.SS run\n", "\n.SS top\n", "\\-\\-baseline TEXT", "(default: f32)"});
  const Captured read = capture({"sh", "-c",
      "command -v groff >/dev/null || exit 0; \"$0\" --man | groff -man -ww -z", SYMM_TOOL});
  EXPECT_EQ(read.status, 0);
  EXPECT_EQ(read.err, "");
}

TEST(Help, HasExamplesAndNoneOfTheParsersWords) {
  expect_said(out_of(capture({SYMM_TOOL, "run", "--help"})),
      {"Usage: symm run [OPTIONS] -n RANKS [--] PROGRAM [ARGUMENTS]", "--np,--nproc-per-node TEXT",
          "--grace FLOAT=2 ", "collectives go by symm where",
          "symm run -n 1 ./a : -n 3 python b.py"});
  const std::string bench = out_of(capture({SYMM_TOOL, "bench", "--help"}));
  expect_said(bench, {"--type TEXT=f32  ", "Examples:"});
  EXPECT_EQ(bench.find("Excludes"), std::string::npos);
}

TEST(BashCompletion, KnowsCommandsAndTheirOptions) {
  const auto completed = [](const std::string& words) {
    const std::string script =
        "source <(\"$0\" --bash-completion); COMP_WORDS=(" + words +
        "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _symm; echo \"${COMPREPLY[@]}\"";
    return capture({"bash", "-c", script, SYMM_TOOL}).out;
  };
  EXPECT_EQ(completed("symm ru"), "run\n");
  EXPECT_EQ(completed("symm bench --gra"), "--graph\n");
  EXPECT_EQ(completed("symm run -n 2 -- ./a --gra"), "\n");
}

TEST(FishCompletion, KnowsCommandsAndTheirOptions) {
  expect_said(out_of(capture({SYMM_TOOL, "--fish-completion"})),
      {"-n __fish_use_subcommand -a top -d '", " -l trace -r -d '"});
  if (capture({"sh", "-c", "command -v fish"}).status != 0) GTEST_SKIP() << "no fish here";
  const auto completed = [](const std::string& words) {
    return capture(
        {"fish", "-c",
            std::string(SYMM_TOOL) + " --fish-completion | source; complete -C '" + words + "'"})
        .out;
  };

  EXPECT_TRUE(completed("symm ru").starts_with("run\t"));
  EXPECT_TRUE(completed("symm bench --gra").starts_with("--graph\t"));
  EXPECT_EQ(completed("symm run -n 2 -- ./a --gra"), "");
}

TEST(DoctorCommand, JsonAgreesWithItsStatus) {
  const Captured result = capture({"env", "SYMM_UCX=/\xff", SYMM_TOOL, "doctor", "--json"});
  const json report = json::parse(result.out);
  EXPECT_EQ(report["healthy"].get<bool>(), result.status == 0);
  std::set<std::string> checks;
  for (const json& check : report["checks"]) {
    checks.insert(check["check"].get<std::string>());
  }

  EXPECT_EQ(checks.size(), report["checks"].size());
  for (const char* check : {"shared memory", "open files", "runtime directory", "namespaces",
           "CUDA driver", "self test"}) {
    EXPECT_TRUE(checks.count(check)) << check;
  }

  for (const json& check : report["checks"]) {
    EXPECT_TRUE(check["check"] != "self test" || check["verdict"] == "OK") << check;
  }
}

TEST(DoctorCommand, FailsWhereSymmCannotWork) {
  // Ten descriptors are too few for a group.
  const Captured result =
      capture({"sh", "-c", std::string("ulimit -n 16; exec ") + SYMM_TOOL + " doctor"});
  EXPECT_EQ(result.status, 1);
  expect_said(result.out, {"FAIL  open files", "symm does not work here"});
}

// In a mount namespace of its own. False if this machine gives none.
bool run_where(const std::string& mounts, const std::string& command, Captured& result) {
  if (capture({"unshare", "-m", "sh", "-c", mounts}).status != 0) return false;
  result = capture({"unshare", "-m", "sh", "-c", mounts + " && exec " + SYMM_TOOL + command});
  return true;
}

TEST(DoctorCommand, SaysWhatIsMissingWithoutProc) {
  SYMM_NOT_UNDER_ASAN("it finds the stack of the main thread in /proc");

  Captured result;
  if (!run_where("mount -t tmpfs none /proc", " doctor", result)) GTEST_SKIP() << "no unshare -m";
  EXPECT_EQ(result.status, 1);
  expect_said(result.out, {"FAIL  process files", "mount -t proc"});
}

TEST(DoctorCommand, SaysWhatToSetWhereTheTemporaryDirectoryIsReadOnly) {
  const std::string mounts =
      "unset XDG_RUNTIME_DIR TMPDIR && mount -t tmpfs none /tmp && mkdir -m 700 /tmp/symm-$(id -u) "
      "&& mount -o remount,ro /tmp";
  Captured result;
  if (!run_where(mounts, " doctor", result)) GTEST_SKIP() << "no unshare -m";
  EXPECT_EQ(result.status, 1);
  expect_said(result.out, {"FAIL  runtime directory", "FAIL  directory of a job", "TMPDIR"});
  ASSERT_TRUE(run_where(mounts + " && export XDG_RUNTIME_DIR=/dev/shm", " run -n 1 true", result));
  expect_said(result.err, {"XDG_RUNTIME_DIR=/dev/shm is not taken", "TMPDIR", "0700"});
}

TEST(BenchP2p, MeasuresAndChecksEachPair) {
  const json report =
      json::parse(out_of(bench(3, {"p2p", "-b", "8", "-e", "100K", "-n", "3", "--json"})));
  EXPECT_EQ(report["wrong"], 0);
  EXPECT_EQ(report["GB/s"]["bytes"], 102400);

  for (const char* const what : {"us", "GB/s"}) {
    for (size_t at = 0; at < 9; ++at) {
      EXPECT_EQ(report[what]["from_to"][at / 3][at % 3].get<double>() > 0, at / 3 != at % 3)
          << what << ' ' << at;
    }
  }

  expect_said(bench(2, {"p2p", "--csv"}).err, {"--csv: is of collectives, not of p2p"});
  expect_said(bench(2, {"sendrecv", "-e", "4K"}).out,
      {"us a put, 8 bytes", "GB/s, 4096 bytes", "\n     1 "});
}

class Collectives : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Collectives, EveryResultIsChecked) {
  const auto [collective, memory] = GetParam();
  const json report =
      json::parse(out_of(bench(3, {collective, memory, "-b", "4", "-e", "100K", "-f", "23", "-n",
                                      "5", "-w", "1", "-r", "1", "--json"})));
  EXPECT_EQ(report["ranks"], 3);
  EXPECT_EQ(report["wrong"], 0);
  const bool barrier = std::string(collective) == "barrier";
  EXPECT_EQ(report["results"].size(), barrier ? 1U : 2U * 4U);

  for (const json& one : report["results"]) {
    EXPECT_EQ(one["iterations"], 5);
    EXPECT_GT(one["time_us"]["p50"], 0);
    EXPECT_LE(one["time_us"]["min"], one["time_us"]["p50"]);
    EXPECT_LE(one["time_us"]["p50"], one["time_us"]["p99"]);
    if (barrier) continue;
    EXPECT_EQ(one["wrong"], 0);
    EXPECT_NEAR(one["algbw"].get<double>(),
        one["size"].get<double>() / one["time_us"]["p50"].get<double>() / 1000, 1e-9);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Collectives,
    testing::Combine(testing::Values("allreduce", "reduce_scatter", "allgather", "broadcast",
                         "reduce", "alltoall", "scan", "exscan", "barrier"),
        testing::Values("--symmetric", "--private")));

TEST(Bench, EveryTypeAndOp) {
  const json report =
      json::parse(out_of(bench(2, {"allreduce", "-d", "all", "-o", "all", "-b", "8K", "-e", "8K",
                                      "-n", "2", "-w", "0", "--json"})));
  EXPECT_EQ(report["results"].size(), (15U * 5U - 1U + 8U * 3U + 2U * 3U + 4U * 2U) * 2U)
      << "bool has no average, bits are of the 8 types of integers, complex numbers have no order, "
         "and pairs have minima and maxima only";
  EXPECT_EQ(report["wrong"], 0);
}

TEST(Bench, TableHasTheColumnsOfNcclTests) {
  expect_said(out_of(bench(2, {"all_reduce", "-b", "1K", "-e", "1K", "-n", "3", "-a", "two-shot"})),
      {"size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "out of place",
          "in place", "two-shot", "OK"});
  const bool many = usable_processors() > 1;
  EXPECT_EQ(bench(2, {"barrier", "-n", "3"}).out.find("not bound") != std::string::npos, many);
  EXPECT_EQ(capture({SYMM_TOOL, "run", "-n", "1", "--bind", "core", SYMM_TOOL, "bench", "barrier"})
                .out.find("not bound"),
      std::string::npos);
}

TEST(Bench, WrongUseIsRefused) {
  EXPECT_EQ(capture({SYMM_TOOL, "bench", "allsum"}).status, 2);
  EXPECT_EQ(capture({SYMM_TOOL, "bench", "allreduce", "-d", "f33"}).status, 2);
  EXPECT_EQ(capture({SYMM_TOOL, "bench", "allreduce", "-b", "2M", "-e", "1M"}).status, 2);
  expect_end(bench(2, {"broadcast", "-r", "2"}), 1, {"--root is 2, but there are only 2 ranks"});
}

TEST(Demo, ShowsWhatEachRankDid) {
  const std::string out =
      out_of(capture({SYMM_TOOL, "run", "-n", "4", "--timeout", "100", "--", SYMM_DEMO}));
  for (int rank = 0; rank < 4; ++rank) {
    const std::string own = "[" + std::to_string(rank) + "] rank " + std::to_string(rank);
    const std::string left = std::to_string((rank + 3) % 4);
    expect_said(
        out, {own + " of 4",
                 own + " found in its block: \"hello " + std::to_string(rank) + ", this is " + left,
                 "and found " + std::to_string(1000 + (rank + 1) % 4) + " in its own"});
  }
  expect_said(out, {"all sums equal the serial ones, bit for bit"});
}

// symm bench --tune writes a table, and the library follows it.
class Tune : public testing::Test {
 protected:
  ~Tune() override { unsetenv("SYMM_PLAN_FILE"); }

  static Captured tune(int ranks, const Words& arguments) {
    return bench(ranks, Words{"--tune", "--backend", "host"} + arguments);
  }

  std::string file() const { return folder_ / "plan.txt"; }

  std::string text() const {
    std::stringstream out;
    out << std::ifstream(file()).rdbuf();
    return out.str();
  }

  support::TemporaryDirectory folder_;
};

// "key = value" of the last line that has it.
uint64_t value_of(const std::string& text, const std::string& key) {
  const size_t at = text.rfind("\n" + key + " = ");
  EXPECT_NE(at, std::string::npos) << key << " in\n" << text;
  return at == std::string::npos ? 0
                                 : std::strtoull(text.c_str() + at + key.size() + 4, nullptr, 10);
}

TEST_F(Tune, WritesATableThatTheLibraryFollows) {
  expect_said(
      out_of(tune(2, {"--out", file(), "-b", "8", "-e", "64K", "-f", "8", "-n", "5", "-w", "1"})),
      {"wrote " + file()});
  expect_said(text(), {"[host 2]", "# ", " 8 ", " 56 ", " 64 ", " 32768 "});
  const uint64_t ll = value_of(text(), "ll");
  const uint64_t one_shot = value_of(text(), "one_shot");
  EXPECT_LE(ll, 56U);
  EXPECT_LE(ll, one_shot);

  setenv("SYMM_PLAN_FILE", file().c_str(), 1);
  for (const uint64_t bytes :
      {uint64_t{1}, ll, ll + 1, one_shot, one_shot + 1, uint64_t{4} << 20}) {
    if (bytes == 0) continue;  // the threshold of what is never used
    const std::string size = std::to_string(bytes);
    const json report = json::parse(
        out_of(bench(2, {"allreduce", "-d", "u8", "-b", size, "-e", size, "-n", "1", "--json"})));
    const char* expected = "two-shot";
    if (bytes <= one_shot) expected = "one-shot";
    if (bytes <= ll) expected = "ll";
    for (const json& result : report["results"]) {
      EXPECT_EQ(result["algorithm"], expected) << size << " bytes with\n" << text();
    }
  }
}

TEST_F(Tune, StandardOutputIsTheTableAlone) {
  std::ofstream(file()) << out_of(tune(3, {"-e", "4K", "-f", "32", "-n", "3", "-w", "0"}));
  expect_said(text(), {"\n[host 3]\n"});
  expect_said(on_ranks(2, {"env", "SYMM_RUN_TERMINAL=1", SYMM_TOOL, "bench", "--tune", "-e", "8",
                              "-n", "1"})
                  .err,
      {"tune allreduce, 8 B\r"});
  const std::string use =
      "SYMM_PLAN_FILE=" + file() + " exec " + SYMM_TOOL + " bench allreduce -b 2K -e 2K -n 1";
  EXPECT_EQ(on_ranks(3, {"sh", "-c", use}).status, 0);
}

TEST_F(Tune, WrongUseIsRefused) {
  EXPECT_EQ(capture({SYMM_TOOL, "bench", "allreduce", "--tune"}).status, 2);
  EXPECT_EQ(capture({SYMM_TOOL, "bench", "--tune", "--json"}).status, 2);
  EXPECT_EQ(capture({SYMM_TOOL, "bench", "allreduce", "--out", file()}).status, 2);
  EXPECT_EQ(capture({SYMM_TOOL, "bench", "--tune", "--backend", "tpu"}).status, 2);
  EXPECT_EQ(capture({SYMM_TOOL, "bench"}).status, 2);
  expect_end(capture({SYMM_TOOL, "bench", "--tune", "--backend", "host"}), 1,
      {"--tune needs 2 ranks or more"});
  expect_end(
      tune(2, {"-e", "8", "-n", "1", "--out", "/nowhere/plan"}), 1, {"cannot write /nowhere/plan"});
}
}  // namespace
}  // namespace symm::tool
