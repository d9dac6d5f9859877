// symm run, as its users see it. Where a test waits for a process, it polls with a limit and never measures.
#include "tests/support/footprint.hpp"
#include "tests/support/process.hpp"
#include "tools/doctor/capture.hpp"
#include "tools/host/host.hpp"
#include "tools/run/job_directory.hpp"
#include "tools/run/rank_process.hpp"

namespace symm::tool {
namespace {
constexpr std::chrono::seconds limit{60};

Captured symm_run(std::vector<std::string> options, const std::string& script) {
  std::vector<std::string> command{SYMM_TOOL, "run"};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"--", "sh", "-c", script});
  return capture(command, limit);
}

bool eventually(const std::function<bool()>& condition) { return support::eventually(condition, 60'000, 5000); }

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

// Gone, or dead and not yet reaped by whoever inherited it.
bool gone(const std::string& pid_file) {
  std::ifstream file(pid_file);
  pid_t pid = 0;
  if (!(file >> pid)) return false;
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number;
  std::string name;
  std::string state;
  return !(stat >> number >> name >> state) || state == "Z" || state == "X";
}

TEST(Launcher, EachLineCarriesItsRank) {
  const Captured result = symm_run({"-n", "3"}, "echo out; echo err >&2; printf partial");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(sorted_lines(result.out), "[0] out\n[0] partial\n[1] out\n[1] partial\n[2] out\n[2] partial\n");
  EXPECT_EQ(sorted_lines(result.err), "[0] err\n[1] err\n[2] err\n");
}

TEST(Launcher, PrefixCanBeTaggedOrLeftOut) {
  EXPECT_EQ(symm_run({"-n", "1", "--tag", "train"}, "echo x").out, "[train 0] x\n");
  EXPECT_EQ(symm_run({"-n", "1", "--no-prefix"}, "echo x").out, "x\n");
}

TEST(Launcher, RanksKnowWhoTheyAre) {
  const Captured result = symm_run({"-n", "2", "--no-prefix"}, "echo $SYMM_RANK/$SYMM_SIZE $SYMM_LOCAL_RANK/$SYMM_LOCAL_SIZE");
  EXPECT_EQ(sorted_lines(result.out), "0/2 0/2\n1/2 1/2\n");
  const Captured jobs = symm_run({"-n", "2", "--no-prefix"}, "echo $SYMM_JOB $SYMM_BOOTSTRAP");
  EXPECT_EQ(jobs.out.substr(0, jobs.out.size() / 2), jobs.out.substr(jobs.out.size() / 2)) << "one job, one directory";
}

TEST(Launcher, SeveralProgramsAreOneJob) {
  const std::string who = "echo $0 $SYMM_RANK/$SYMM_SIZE $SYMM_LOCAL_RANK";
  for (const std::vector<std::string>& begin : {std::vector<std::string>{"-n", "1"}, {"-np", "1", "--tag", "x", "--"}}) {
    std::vector<std::string> command{SYMM_TOOL, "run", "--no-prefix"};
    command.insert(command.end(), begin.begin(), begin.end());
    command.insert(command.end(), {"sh", "-c", who, "a", ":", "-np", "2", "--", "sh", "-c", who, "b:", ":"});
    const Captured result = capture(command, limit);
    EXPECT_EQ(sorted_lines(result.out), "a 0/3 0\nb: 1/3 1\nb: 2/3 2\n") << result.err;
  }
  const std::pair<std::vector<std::string>, const char*> wrong[] = {{{"-n", "1", "true", ":", "-n", "0", "true"}, "1 to 4096"},
      {{"-n", "1", "true", ":", "-n", "1", "--"}, "which program?"}, {{"-n", "4x", "true"}, "'4x' ranks"}, {{"true"}, "how many"},
      {{"-n", "4096", "true", ":", "-n", "1", "true"}, "4097 ranks"}, {{"-n", "1", "--hosts", "a:1", "true"}, "either"},
      {{"--hosts", "a:1", "true", ":", "-n", "1", "true"}, "on one machine"}};
  for (const auto& [arguments, part] : wrong) {
    std::vector<std::string> command{SYMM_TOOL, "run"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const Captured result = capture(command, limit);
    EXPECT_EQ(result.status, 2);
    EXPECT_TRUE(contains(result.err, part)) << result.err;
  }
}

TEST(Launcher, LogsOfEachRank) {
  const support::TemporaryDirectory directory;
  const std::string logs = directory.path() + "/a/b";
  const Captured result = symm_run({"-n", "2", "--log-dir", logs}, "echo out; printf 'r\rerr' >&2");
  EXPECT_EQ(sorted_lines(result.out), "[0] out\n[1] out\n");
  for (const char* rank : {"/rank.0", "/rank.1"})
    for (const auto& [stream, text] : {std::pair{".out", "out\n"}, {".err", "r\rerr"}}) {
      std::ifstream file(logs + rank + stream);
      EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
    }
  const Captured full = symm_run({"-n", "1", "--log-dir", "/proc/nowhere"}, "true");
  EXPECT_EQ(full.status, 2);
  EXPECT_TRUE(contains(full.err, "--log-dir")) << full.err;
}

TEST(Command, MistypedIsAnsweredWithTheNearest) {
  const Captured result = capture({SYMM_TOOL, "dcotor"}, limit);
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(contains(result.err, "'dcotor'") && contains(result.err, "'doctor'")) << result.err;
}

TEST(Launcher, DirectoryIsPrivateAndRemoved) {
  const Captured result = symm_run({"-n", "1", "--no-prefix"}, "d=${SYMM_BOOTSTRAP#dir://}; touch $d/file; stat -c '%a %n' $d");
  ASSERT_EQ(result.out.substr(0, 4), "700 ") << result.out << result.err;
  EXPECT_FALSE(std::filesystem::exists(result.out.substr(4, result.out.size() - 5)));
}

TEST(Launcher, FirstFailureIsNamedAndGivesTheStatus) {
  const Captured result = symm_run({"-n", "3", "--grace", "0.1"}, "test $SYMM_RANK = 1 && exit 7; exec sleep 100");
  EXPECT_EQ(result.status, 7);
  EXPECT_TRUE(contains(result.err, "rank 1 (pid ")) << result.err;
  EXPECT_TRUE(contains(result.err, "exited with status 7")) << result.err;
  EXPECT_TRUE(contains(result.err, "ranks 0, 2 were killed by SIGTERM")) << result.err;
}

TEST(Launcher, OtherRanksMayEndByThemselves) {
  const Captured result =
      symm_run({"-n", "2", "--grace", "30"}, "test $SYMM_RANK = 0 && exit 3; sleep 0.2; echo peer failed >&2; exit 1");
  EXPECT_EQ(result.status, 3);
  EXPECT_TRUE(contains(result.err, "[1] peer failed")) << result.err;
  EXPECT_TRUE(contains(result.err, "then rank 1 exited with status 1")) << result.err;
}

TEST(Launcher, DeathBySignal) {
  const Captured result = symm_run({"-n", "2", "--grace", "0.1"}, "test $SYMM_RANK = 1 && kill -KILL $$; exec sleep 100");
  EXPECT_EQ(result.status, 128 + SIGKILL);
  EXPECT_TRUE(contains(result.err, "was killed by SIGKILL (Killed)")) << result.err;
}

TEST(Launcher, RankThatIgnoresTermIsKilled) {
  const Captured result =
      symm_run({"-n", "2", "--grace", "0.1"}, "trap '' TERM; test $SYMM_RANK = 0 && exit 5; while :; do sleep 0.05; done");
  EXPECT_EQ(result.status, 5);
  EXPECT_TRUE(contains(result.err, "rank 1 was killed by SIGKILL")) << result.err;
}

TEST(Launcher, StoppedRankIsEndedToo) {
  const Captured result = symm_run({"-n", "2", "--grace", "0.1"}, "test $SYMM_RANK = 0 && exit 5; kill -STOP $$");
  EXPECT_EQ(result.status, 5);
}

TEST(Launcher, JobDeadline) {
  const Captured result = symm_run({"-n", "2", "--timeout", "0.2", "--grace", "0.1"}, "exec sleep 100");
  EXPECT_EQ(result.status, 124);
  EXPECT_TRUE(contains(result.err, "time-out")) << result.err;
}

TEST(Launcher, InputGoesToRankZeroOnly) {
  const Captured result =
      capture({"sh", "-c", std::string("printf 'a\\nb\\n' | ") + SYMM_TOOL + " run -n 3 -- sh -c 'cat; echo end'"}, limit);
  EXPECT_EQ(sorted_lines(result.out), "[0] a\n[0] b\n[0] end\n[1] end\n[2] end\n");
}

TEST(Launcher, ProgramThatCannotBeStarted) {
  const Captured missing = capture({SYMM_TOOL, "run", "-n", "2", "no-such-program"}, limit);
  EXPECT_EQ(missing.status, 127);
  EXPECT_TRUE(contains(missing.err, "cannot run 'no-such-program': No such file or directory")) << missing.err;
  const Captured directory = capture({SYMM_TOOL, "run", "-n", "2", "/"}, limit);
  EXPECT_EQ(directory.status, 126);
  EXPECT_TRUE(contains(directory.err, "Permission denied")) << directory.err;
}

TEST(Launcher, WrongUseIsRefused) {
  EXPECT_EQ(capture({SYMM_TOOL, "run", "-n", "2"}, limit).status, 2);
  EXPECT_EQ(capture({SYMM_TOOL, "run", "--", "true"}, limit).status, 2);
  EXPECT_EQ(capture({SYMM_TOOL, "run", "-n", "0", "true"}, limit).status, 2);
  const Captured typo = capture({SYMM_TOOL, "run", "--tmeout", "3", "-n", "2", "true"}, limit);
  EXPECT_EQ(typo.status, 2);
  EXPECT_TRUE(contains(typo.err, "--tmeout")) << typo.err;
}

TEST(Launcher, OptionsOfTheProgramAreItsOwn) {
  EXPECT_EQ(capture({SYMM_TOOL, "run", "-n", "1", "--no-prefix", "printf", "%s|", "-n", "--", "x"}, limit).out, "-n|--|x|\n");
  EXPECT_EQ(capture({SYMM_TOOL, "run", "-n", "1", "--no-prefix", "--", "echo", "--timeout", "x"}, limit).out, "--timeout x\n");
}

TEST(Launcher, RankMayCloseItsOutput) {
  const Captured result = symm_run({"-n", "2"}, "exec >&- 2>&-; sleep 0.1; exit 0");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out + result.err, "");
}

TEST(Launcher, ReaderThatLeavesEndsTheJob) {
  const Captured result = capture({"sh", "-c", std::string(SYMM_TOOL) + " run -n 2 --no-prefix -- yes | head -n 2"}, limit);
  EXPECT_EQ(result.out, "y\ny\n");
}

TEST(Launcher, MuchOutputArrivesWhole) {
  const Captured result = symm_run({"-n", "2"}, "seq 1 20000");
  size_t lines[2] = {0, 0};
  std::istringstream stream(result.out);
  for (std::string line; std::getline(stream, line);) {
    ASSERT_TRUE(line.rfind("[0] ", 0) == 0 || line.rfind("[1] ", 0) == 0) << line;
    size_t& count = lines[line[1] - '0'];
    ASSERT_EQ(line.substr(4), std::to_string(++count));
  }
  EXPECT_EQ(lines[0], 20000U);
  EXPECT_EQ(lines[1], 20000U);
}

TEST(Launcher, ProcessesLeftBehindAreEnded) {
  const JobDirectory scratch;
  const std::string pid_file = scratch.path() + "/pid";
  // A child in a session of its own, which no signal to the rank's group reaches.
  const Captured result = symm_run(
      {"-n", "1", "--grace", "0.1"}, "setsid sh -c 'echo $$ > " + pid_file + ".new; mv " + pid_file + ".new " + pid_file +
                                         "; exec sleep 1000' & while ! test -e " + pid_file + "; do sleep 0.01; done");
  EXPECT_EQ(result.status, 0);
  EXPECT_TRUE(contains(result.err, "left processes behind")) << result.err;
  EXPECT_TRUE(gone(pid_file));
}

TEST(Launcher, BindsToCores) {
  const Captured result = symm_run({"-n", "2", "--no-prefix", "--bind", "core"}, "grep Cpus_allowed_list: /proc/self/status");
  ASSERT_EQ(result.status, 0) << result.err;
  const size_t end = result.out.find('\n');
  const bool same = result.out.substr(0, end) == result.out.substr(end + 1, result.out.size() - end - 2);
  EXPECT_EQ(same, usable_cores().size() < 2) << result.out;
  EXPECT_EQ(contains(result.err, "some share one"), same) << result.err;
  EXPECT_EQ(capture({SYMM_TOOL, "run", "-n", "1", "--bind", "socket", "true"}, limit).status, 2);
}

// A launcher that runs beside the test, whose ranks say when they are ready.
class Running : public testing::Test {
 protected:
  void start(const std::string& script) {
    SpawnRequest request;
    request.command = {SYMM_TOOL, "run", "-n", "2", "--grace", "0.2", "--no-prefix", "--", "sh", "-c", script};
    for (char** entry = environ; *entry != nullptr; ++entry) request.environment.emplace_back(*entry);
    request.environment.push_back("SCRATCH=" + scratch_.path());
    launcher_ = spawn(request);
    ASSERT_TRUE(eventually([&] { return exists("ready0") && exists("ready1"); }));
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(scratch_.path() + "/" + name); }
  int wait() {
    int status = -1;
    ::waitpid(launcher_.pid, &status, 0);
    return shell_status(status);
  }

  JobDirectory scratch_;
  Spawned launcher_;
};

constexpr const char* say_ready =
    "echo $$ > $SCRATCH/pid$SYMM_RANK; echo $SYMM_BOOTSTRAP > $SCRATCH/dir; touch $SCRATCH/ready$SYMM_RANK; ";

TEST_F(Running, InterruptReachesAllRanks) {
  start(std::string("trap 'touch $SCRATCH/caught$SYMM_RANK; exit 0' INT; ") + say_ready + "while :; do sleep 0.05; done");
  ::kill(launcher_.pid, SIGINT);
  EXPECT_EQ(wait(), 0) << "ranks that handle the signal and end well make a job that ends well";
  EXPECT_TRUE(exists("caught0"));
  EXPECT_TRUE(exists("caught1"));
}

TEST_F(Running, TerminationGivesItsStatus) {
  start(std::string(say_ready) + "exec sleep 1000");
  ::kill(launcher_.pid, SIGTERM);
  EXPECT_EQ(wait(), 128 + SIGTERM);
}

TEST_F(Running, InterruptThatIsIgnoredEndsInKill) {
  start(std::string("trap '' INT; ") + say_ready + "while :; do sleep 0.05; done");
  ::kill(launcher_.pid, SIGINT);
  EXPECT_EQ(wait(), 128 + SIGKILL);
}

TEST_F(Running, UserSignalsPassThrough) {
  start(std::string("trap 'touch $SCRATCH/caught$SYMM_RANK; exit 0' USR1; ") + say_ready + "while :; do sleep 0.05; done");
  ::kill(launcher_.pid, SIGUSR1);
  EXPECT_EQ(wait(), 0);
  EXPECT_TRUE(exists("caught0"));
  EXPECT_TRUE(exists("caught1"));
}

TEST_F(Running, KilledLauncherLeavesNothing) {
  // The ranks' own child too: the launcher's death signal reaches only the ranks.
  start("sleep 1000 & echo $! > $SCRATCH/child$SYMM_RANK; " + std::string(say_ready) + "wait");
  std::string directory;
  std::ifstream(scratch_.path() + "/dir") >> directory;
  directory = directory.substr(std::string("dir://").size());
  ASSERT_TRUE(std::filesystem::exists(directory));
  ::kill(launcher_.pid, SIGKILL);
  EXPECT_EQ(wait(), 128 + SIGKILL);
  for (const char* name : {"pid0", "pid1", "child0", "child1"})
    EXPECT_TRUE(eventually([&] { return gone(scratch_.path() + "/" + name); })) << name;
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(directory); }));
}

TEST(Launcher, HostsAreOneJobWhoseSecretIsInNoArgument) {
  const Captured result = symm_run({"--hosts", "127.0.0.1:2,me@localhost:1", "--launcher", "sh -c", "--port", "29000"},
      "secret=$(od -An -v -tx1 $SYMM_SECRET_FILE | tr -d ' \\n');"
      "echo $SYMM_RANK of $SYMM_SIZE, $SYMM_LOCAL_RANK of $SYMM_LOCAL_SIZE, $SYMM_BOOTSTRAP, ${#secret} \"it's\";"
      "for of in /proc/[0-9]*; do case $(tr '\\0' ' ' 2>&1 <$of/cmdline) in *$secret*) echo $of;; esac; done");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(sorted_lines(result.out),
      "[0] 0 of 3, 0 of 2, tcp://127.0.0.1:29000, 64 it's\n"
      "[1] 1 of 3, 1 of 2, tcp://127.0.0.1:29000, 64 it's\n"
      "[2] 2 of 3, 0 of 1, tcp://127.0.0.1:29000, 64 it's\n");
}

TEST(Launcher, ARankThatFailsEndsTheJobOnAllHosts) {
  const Captured result =
      symm_run({"--hosts", "a:2,b:1", "--launcher", "sh -c", "--grace", "0.1"}, "[ $SYMM_RANK = 2 ] && exit 3; sleep 60");
  EXPECT_EQ(result.status, 3);
  EXPECT_TRUE(contains(result.err, "rank 2 (pid ") && contains(result.err, "host b (pid ")) << result.err;
}

TEST(Launcher, APartEndsWithWhoeverStartedIt) {
  const std::string part = std::string(SYMM_TOOL) + " run --part 0:1:0123456789abcdef:localhost:1 -n 1 -- sleep 60";
  const Captured result = capture({"sh", "-c", "head -c 32 /dev/zero | tr '\\0' a | " + part}, limit);
  EXPECT_TRUE(contains(result.err, "the launcher of the job is gone")) << result.err;
  EXPECT_EQ(result.status, 128 + SIGTERM);
  for (const char* bad : {"a", "a:", "a:0", ":2", "a:2,,b:1", "-o:1", "a:x"}) {
    const Captured refused = symm_run({"--hosts", bad}, "true");
    EXPECT_EQ(refused.status, 2) << bad;
  }
}
}  // namespace
}  // namespace symm::tool
