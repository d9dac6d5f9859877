// The command symm run, as its users see it. A test that waits for a process polls with a limit
// and never measures.
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "symm/page.h"
#include "symm/symm.h"
#include "tests/support/group.hpp"
#include "tests/tools/captured.hpp"
#include "tools/host/host.hpp"
#include "tools/run/job.hpp"
#include "tools/run/processes.hpp"

namespace symm::tool {
namespace {
Captured symm_run(const Words& options, const std::string& script) {
  return capture(Words{SYMM_TOOL, "run"} + options + Words{"--", "sh", "-c", script});
}

bool eventually(const std::function<bool()>& condition) {
  return support::eventually(condition, 60'000, 5000);
}

std::string sorted_lines(const std::string& text) {
  std::multiset<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    lines.insert(line + "\n");
  }
  return std::accumulate(lines.begin(), lines.end(), std::string());
}

// True if a process is gone, or dead and not yet reaped by the process that inherited it.
bool gone(const std::string& pid_file) {
  pid_t pid = 0;
  if (!(std::ifstream(pid_file) >> pid)) return false;
  const auto process = find_process(pid);
  return !process || process->state == 'Z' || process->state == 'X';
}

TEST(Launcher, EachLineCarriesItsRankAndATagOrNothing) {
  const Captured result = symm_run({"-n", "3"}, "echo out; echo err >&2; printf partial");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(sorted_lines(result.out),
      "[0] out\n[0] partial\n[1] out\n[1] partial\n[2] out\n[2] partial\n");
  EXPECT_EQ(sorted_lines(result.err), "[0] err\n[1] err\n[2] err\n");
  EXPECT_EQ(symm_run({"-n", "1", "--tag", "train"}, "echo x").out, "[train 0] x\n");
  EXPECT_EQ(symm_run({"-n", "1", "--no-prefix"}, "echo x").out, "x\n");
}

// A spare that nobody needs is ended with the ranks, and its end is no failure.
TEST(Launcher, SparesThatNobodyNeedsEndWithTheRanks) {
  const std::string script =
      "if test -n \"$SYMM_SPARE\"; then test -z \"$SYMM_RANK$RANK\" && echo waits && "
      "touch $SYMM_TICKETS/here-$SYMM_SPARE; sleep 60; fi; "
      "while ! test -e $SYMM_TICKETS/here-0 -a -e $SYMM_TICKETS/here-1; do sleep 0.02; done; "
      "echo $SYMM_RANK of $SYMM_SIZE";
  const Captured result = symm_run({"-n", "2", "--spares", "2", "--grace", "60"}, script);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(sorted_lines(result.out), "[0] 0 of 2\n[1] 1 of 2\n[spare 0] waits\n[spare 1] waits\n");
}

// As many ranks may fail as there are spares; the next failure is the job's.
TEST(Launcher, TheFailureForWhichNoSpareIsLeftIsTheJobs) {
  const std::string script =
      "test -n \"$SYMM_SPARE\" && touch $SYMM_TICKETS/rank-$SYMM_SPARE && "
      "while ! test -e $SYMM_TICKETS/lost; do sleep 0.02; done && exit 7; "
      "test $SYMM_RANK = 0 && touch $SYMM_TICKETS/lost && exit 5; sleep 60";
  const Captured result = symm_run({"-n", "2", "--spares", "1", "--grace", "1"}, script);
  EXPECT_TRUE(result.status == 7 || result.status == 5) << result.err;
  EXPECT_NE(result.err.find("spares that are left for it: 1"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("the others have 1 s to end"), std::string::npos) << result.err;
  const Captured several =
      capture(Words{SYMM_TOOL, "run", "-n", "1", "--spares", "1", "true", ":", "-n", "1", "true"});
  EXPECT_NE(several.err.find("--spares go with one program"), std::string::npos) << several.err;
}

// Without prefixes nothing is added, and nothing is taken away.
TEST(Launcher, WithoutPrefixesOutputIsHandedOnByteForByte) {
  const auto bytes_of = [](const std::string& script) {
    return symm_run({"-n", "1", "--no-prefix"}, script).out;
  };
  EXPECT_EQ(bytes_of("printf 'no end'"), "no end");
  EXPECT_EQ(bytes_of("printf '\\n\\na\\r\\nb\\rc\\0d'"), std::string("\n\na\r\nb\rc\0d", 10));
  EXPECT_EQ(bytes_of("head -c 2500000 /dev/zero"), std::string(2'500'000, '\0'));
  EXPECT_EQ(symm_run({"-n", "1"}, "printf 'no end'").out, "[0] no end\n");

  // The launcher's own words begin a line.
  const Captured failed = symm_run({"-n", "1", "--no-prefix"}, "printf 'no end' >&2; exit 3");
  expect_end(failed, 3, {"no end", "symm run: rank 0"});
  EXPECT_EQ(failed.err.find("no endsymm"), std::string::npos) << failed.err;
}

TEST(Launcher, RanksKnowWhoTheyAreAndNothingOfAnotherLauncher) {
  const Captured result = capture({"env", "OMPI_COMM_WORLD_RANK=7", "RANK=7", "SYMM_RANK=7",
      "RANKING=kept", SYMM_TOOL, "run", "-n", "2", "--no-prefix", "sh", "-c",
      "echo $SYMM_RANK/$SYMM_SIZE $SYMM_LOCAL_RANK/$SYMM_LOCAL_SIZE $OMPI_COMM_WORLD_RANK $RANK "
      "$RANKING"});
  EXPECT_EQ(sorted_lines(result.out), "0/2 0/2 0 kept\n1/2 1/2 1 kept\n");
  const Captured jobs = symm_run({"-n", "2", "--no-prefix"}, "echo $SYMM_JOB $SYMM_BOOTSTRAP");
  EXPECT_EQ(jobs.out.substr(0, jobs.out.size() / 2), jobs.out.substr(jobs.out.size() / 2))
      << "one job, one directory";
}

// The variables of torch.distributed are those of this job, also if the launcher is a rank of
// another job by them. A place that was chosen for this job stays.
TEST(Launcher, RanksHaveTheVariablesOfTorch) {
  const std::string echo =
      "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE ${GROUP_RANK-} ${ROLE_RANK-} "
      "${TORCHELASTIC_RUN_ID-} $MASTER_ADDR $MASTER_PORT";
  const auto run_in = [&](const Words& around) {
    return sorted_lines(capture(
        Words{"env"} + around + Words{SYMM_TOOL, "run", "-n", "2", "--no-prefix", "sh", "-c", echo})
            .out);
  };

  const std::string of_torchrun = run_in({"RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "GROUP_RANK=2",
      "ROLE_RANK=5", "TORCHELASTIC_RUN_ID=x", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=1"});
  int ports[2] = {0, 0};
  EXPECT_EQ(std::sscanf(of_torchrun.c_str(), "0/2 0/2 127.0.0.1 %d\n1/2 1/2 127.0.0.1 %d\n",
                &ports[0], &ports[1]),
      2)
      << of_torchrun;
  EXPECT_EQ(ports[0], ports[1]);
  EXPECT_GT(ports[0], 1'023);

  EXPECT_EQ(run_in({"MASTER_ADDR=here", "MASTER_PORT=77"}), "0/2 0/2 here 77\n1/2 1/2 here 77\n");
}

TEST(Launcher, SeveralProgramsAreOneJob) {
  const std::string who = "echo $0 $SYMM_RANK/$SYMM_SIZE $SYMM_LOCAL_RANK";
  for (const Words& begin : {Words{"-n", "1"}, {"-np", "1", "--tag", "x", "--"}, {"--np", "1"}}) {
    const Captured result = capture(Words{SYMM_TOOL, "run", "--no-prefix"} + begin +
                                    Words{"sh", "-c", who, "a", ":", "--nproc-per-node", "2", "--",
                                        "sh", "-c", who, "b:", ":"});
    EXPECT_EQ(sorted_lines(result.out), "a 0/3 0\nb: 1/3 1\nb: 2/3 2\n") << result.err;
  }
}

TEST(Launcher, LogsOfEachRank) {
  const support::TemporaryDirectory directory;
  const std::string logs = directory.path() + "/a/b";
  const Captured result = symm_run({"-n", "2", "--log-dir", logs}, "echo out; printf 'r\rerr' >&2");
  EXPECT_EQ(sorted_lines(result.out), "[0] out\n[1] out\n");
  for (const char* rank : {"/rank.0", "/rank.1"}) {
    for (const auto& [stream, text] : {std::pair{".out", "out\n"}, {".err", "r\rerr"}}) {
      std::ifstream file(logs + rank + stream);
      EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
    }
  }
  expect_end(symm_run({"-n", "1", "--log-dir", "/proc/nowhere"}, "true"), 2, {"--log-dir"});
}

TEST(Launcher, DirectoryIsPrivateAndRemoved) {
  const Captured result = symm_run({"-n", "1", "--no-prefix"},
      "d=${SYMM_BOOTSTRAP#dir://}; mkdir -p $d/a/b; stat -c '%a %n' $d");
  ASSERT_EQ(result.out.substr(0, 4), "700 ") << result.out << result.err;
  EXPECT_FALSE(std::filesystem::exists(result.out.substr(4, result.out.size() - 5)));
}

TEST(Launcher, TheFirstFailureIsNamedAndGivesTheStatus) {
  const struct {
    Words options;
    const char* script;
    int status;
    Words said;
  } rows[] = {{{"-n", "3", "--grace", "0.1"}, "test $SYMM_RANK = 1 && exit 7; exec sleep 100", 7,
                  {"rank 1 (pid ", "exited with status 7", "ranks 0, 2 were killed by SIGTERM"}},
      // Others may end by themselves.
      {{"-n", "2", "--grace", "30"},
          "test $SYMM_RANK = 0 && exit 3; sleep 0.2; echo peer failed >&2; exit 1", 3,
          {"[1] peer failed", "then rank 1 exited with status 1"}},
      {{"-n", "2", "--grace", "0.1"}, "test $SYMM_RANK = 1 && kill -KILL $$; exec sleep 100",
          128 + SIGKILL, {"was killed by SIGKILL (Killed)"}},
      {{"-n", "2", "--grace", "0.1"},
          "trap '' TERM; test $SYMM_RANK = 0 && exit 5; while :; do sleep 0.05; done", 5,
          {"rank 1 was killed by SIGKILL"}},
      {{"-n", "2", "--grace", "0.1", "--timeout", "1e10"},
          "test $SYMM_RANK = 0 && exit 5; kill -STOP $$", 5, {}},
      {{"-n", "2", "--timeout", "0.2", "--grace", "0.1"}, "exec sleep 100", 124, {"time-out"}},
      {{"--hosts", "a:2,b:1", "--launcher", "sh -c", "--grace", "0.1"},
          "[ $SYMM_RANK = 2 ] && exit 3; sleep 60", 3, {"rank 2 (pid ", "host b (pid "}}};

  for (const auto& row : rows) {
    expect_end(symm_run(row.options, row.script), row.status, row.said);
  }
}

TEST(Launcher, WhatFailedFirstIsNamedThoughAnotherEndsFirst) {
  if (getenv("SYMM_FIRST_FAILURE") != nullptr) {
    const support::Group group = support::create({}, 0, 0);
    if (group.rank() == 1) support::check(symm_group_abort(group.get(), "boom"));
    EXPECT_EQ(symm_barrier(group.get(), nullptr, 0, 0, nullptr, nullptr), SYMM_ERR_ABORTED);
    if (group.rank() == 1) ::sleep(1);
    return;
  }
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  expect_end(symm_run({"-n", "2"},
                 "\"" + self + "\" --gtest_filter=Launcher.WhatFailed*; exit $((3 + SYMM_RANK))"),
      3, {"rank 0 (pid ", "what failed first: rank 1 aborted the group: boom\n"});
}

TEST(Launcher, WhatCannotBeStartedIsSaid) {
  // A shell would take zeros for an empty script. A script without a #! line is one all the same.
  const support::TemporaryDirectory folder;
  const auto program = [&](const char* name, const std::string& text) {
    const std::string path = folder.path() + "/" + name;
    std::ofstream(path) << text;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  };
  const std::string zeros = program("zeros", std::string(5547, '\0'));
  const std::string script = program("script", "echo $1\n");
  const struct {
    Words arguments;
    int status;
    Words said;
  } rows[] = {{{"dcotor"}, 2, {"'dcotor'", "'doctor'"}},
      {{"run", "-n", "2", "no-such-program"}, 127,
          {"cannot run 'no-such-program': No such file or directory"}},
      {{"run", "-n", "2", "/"}, 126, {"Permission denied"}}, {{"run", "-n", "2"}, 2, {}},
      {{"run", "-n", "2", ""}, 127, {"cannot run '': No such file or directory"}},
      {{"run", "-n", "2", zeros}, 126, {"Exec format error", "neither a binary"}},
      {{"run", "--", "true"}, 2, {}}, {{"run", "-n", "0", "true"}, 2, {}},
      {{"run", "--tmeout", "3", "-n", "2", "true"}, 2, {"--tmeout"}},
      {{"run", "-n", "1", "--bind", "socket", "true"}, 2, {}},
      {{"run", "-n", "1", "true", ":", "-n", "0", "true"}, 2, {"1 to 4096"}},
      {{"run", "-n", "1", "true", ":", "-n", "1", "--"}, 2, {"which program?"}},
      {{"run", "-n", "4x", "true"}, 2, {"'4x' ranks"}}, {{"run", "true"}, 2, {"how many"}},
      {{"run", "-n", "4096", "true", ":", "-n", "1", "true"}, 2, {"4097 ranks"}},
      {{"run", "-n", "1", "--hosts", "a:1", "true"}, 2, {"either"}},
      {{"run", "--hosts", "a:1", "true", ":", "-n", "1", "true"}, 2, {"on one machine"}}};

  for (const auto& row : rows) {
    expect_end(capture(Words{SYMM_TOOL} + row.arguments), row.status, row.said);
  }
  const Captured ran = capture(Words{SYMM_TOOL, "run", "-n", "2", script, "word"});
  EXPECT_EQ(ran.status, 0) << ran.err;
  EXPECT_EQ(sorted_lines(ran.out), "[0] word\n[1] word\n");

  // A folder without a name at the end of PATH is the current one.
  const std::string here = "cd " + folder.path() + " && PATH=/nowhere: exec " + SYMM_TOOL;
  const Captured found = capture(Words{"sh", "-c", here + " run -n 1 script word"});
  EXPECT_EQ(found.out, "[0] word\n") << found.err;
}

TEST(Launcher, InputGoesToRankZeroOnly) {
  const Captured result = capture({"sh", "-c",
      std::string("printf 'a\\nb\\n' | ") + SYMM_TOOL + " run -n 3 -- sh -c 'cat; echo end'"});
  EXPECT_EQ(sorted_lines(result.out), "[0] a\n[0] b\n[0] end\n[1] end\n[2] end\n");
}

TEST(Launcher, OptionsOfTheProgramAreItsOwn) {
  EXPECT_EQ(
      capture({SYMM_TOOL, "run", "-n", "1", "--no-prefix", "printf", "%s|", "-n", "--", "x"}).out,
      "-n|--|x|");
  EXPECT_EQ(
      capture({SYMM_TOOL, "run", "-n", "1", "--no-prefix", "--", "echo", "--timeout", "x"}).out,
      "--timeout x\n");
}

TEST(Launcher, RankMayCloseItsOutput) {
  const Captured result = symm_run({"-n", "2"}, "exec >&- 2>&-; sleep 0.1; exit 0");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.out + result.err, "");
}

TEST(Launcher, ReaderThatLeavesEndsTheJob) {
  const Captured result =
      capture({"sh", "-c", std::string(SYMM_TOOL) + " run -n 2 --no-prefix -- yes | head -n 2"});
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
  const Captured result = symm_run({"-n", "1", "--grace", "0.1"},
      "setsid sh -c 'echo $$ > " + pid_file + ".new; mv " + pid_file + ".new " + pid_file +
          "; exec sleep 1000' & while ! test -e " + pid_file + "; do sleep 0.01; done");
  expect_end(result, 0, {"left processes behind"});
  EXPECT_TRUE(gone(pid_file));
}

TEST(Launcher, BindsToCores) {
  const Captured result = symm_run(
      {"-n", "2", "--no-prefix", "--bind", "core"}, "grep Cpus_allowed_list: /proc/self/status");
  ASSERT_EQ(result.status, 0) << result.err;
  const size_t end = result.out.find('\n');
  const bool same =
      result.out.substr(0, end) == result.out.substr(end + 1, result.out.size() - end - 2);
  EXPECT_EQ(same, usable_cores().size() < 2) << result.out;
  EXPECT_EQ(contains(result.err, "some share one"), same) << result.err;
}

constexpr const char* say_ready =
    "echo $$ > $SCRATCH/pid$SYMM_RANK; echo $SYMM_BOOTSTRAP > $SCRATCH/dir; touch "
    "$SCRATCH/ready$SYMM_RANK; ";

// A launcher that runs beside the test, whose ranks say when they are ready.
class Running : public testing::Test {
 protected:
  void start(const std::string& script, const Words& options = {}) {
    SpawnRequest request;
    request.command = Words{"sh", "-c", "exec \"$0\" \"$@\" 2>&1", SYMM_TOOL, "run", "-n", "2",
                          "--grace", "0.2", "--no-prefix"} +
                      options + Words{"--", "sh", "-c", script};
    setenv("SCRATCH", scratch_.path().c_str(), 1);
    launcher_ = spawn(request);
    ASSERT_TRUE(eventually([&] { return exists("ready0") && exists("ready1"); }));
  }

  bool exists(const std::string& name) const {
    return std::filesystem::exists(scratch_.path() + "/" + name);
  }

  int wait() {
    int status = -1;
    const auto ended = [&] { return ::waitpid(launcher_.pid, &status, WNOHANG) != 0; };
    if (!eventually(ended)) ::kill(launcher_.pid, SIGKILL);
    return shell_status(status);
  }

  // Has a page of each stream for the launcher to write at
  // once, to one pipe with room for one, which nobody reads.
  void fill_the_pipe(const Words& options) {
    start(std::string(say_ready) +
              "while ! test -e $SCRATCH/go; do sleep 0.01; done; "
              "yes | head -c 8192; yes | head -c 8192 >&2; touch $SCRATCH/wrote$SYMM_RANK; exec "
              "sleep 1000",
        options);
    ::fcntl(launcher_.out.get(), F_SETPIPE_SZ, 4096);
    ::kill(launcher_.pid, SIGSTOP);
    std::ofstream(scratch_.path() + "/go").put('y');
    ASSERT_TRUE(eventually([&] { return exists("wrote0") && exists("wrote1"); }));
    ::kill(launcher_.pid, SIGCONT);
  }

  JobDirectory scratch_;
  Spawned launcher_;
};

TEST_F(Running, SignalsReachAllRanks) {
  const std::string trap = "trap 'touch $SCRATCH/said$SYMM_RANK' USR1; trap 'exit 0' INT; ";
  start(trap + say_ready + "while :; do sleep 0.05; done");
  ::kill(launcher_.pid, SIGUSR1);
  EXPECT_TRUE(eventually([&] { return exists("said0") && exists("said1"); }));
  ::kill(launcher_.pid, SIGINT);
  EXPECT_EQ(wait(), 0) << "ranks that handle the signal and end well make a job that ends well";
}

TEST_F(Running, InterruptThatIsIgnoredEndsInKill) {
  start(std::string("trap '' INT; ") + say_ready + "while :; do sleep 0.05; done");
  ::kill(launcher_.pid, SIGINT);
  EXPECT_EQ(wait(), 128 + SIGKILL);
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

  for (const char* name : {"pid0", "pid1", "child0", "child1"}) {
    EXPECT_TRUE(eventually([&] { return gone(scratch_.path() + "/" + name); })) << name;
  }
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(directory); }));
}

TEST_F(Running, TerminationGivesItsStatusAlsoIfNobodyReads) {
  fill_the_pipe({});
  ::kill(launcher_.pid, SIGTERM);
  EXPECT_EQ(wait(), 128 + SIGTERM);
}

TEST_F(Running, TimeOutGivesItsStatusAlsoIfNobodyReads) {
  fill_the_pipe({"--timeout", "2"});
  EXPECT_EQ(wait(), 124);
}

// When the launcher is gone, the number of a dead rank may belong to another process.
TEST(Warden, KillsNobodyElse) {
  const support::TemporaryDirectory directory;
  support::Process rank([] { support::sleep_for_ever(); });
  support::Process launcher([&] {
    Warden warden(directory.path());
    warden.watch(rank.pid());
    const std::string fd =
        "/proc/" + std::to_string(living_descendants({}).begin()->first) + "/fd/4";
    std::error_code none;
    EXPECT_TRUE(eventually(
        [&] { return contains(std::filesystem::read_symlink(fd, none).string(), "pidfd"); }));
    support::tell();
    support::sleep_for_ever();
  });

  ASSERT_TRUE(launcher.told());
  pid_t number = rank.pid();
  rank.kill(SIGKILL);
  rank.wait();
  clone_args like{};
  like.exit_signal = SIGCHLD;
  like.set_tid = reinterpret_cast<uintptr_t>(&number);
  like.set_tid_size = 1;
  number = static_cast<pid_t>(::syscall(SYS_clone3, &like, sizeof like));

  while (number == 0) {
    ::pause();
  }
  if (number < 0) {
    GTEST_SKIP() << "nobody can have a number of one's choice: " << std::strerror(errno);
  }

  ::setpgid(number, number);
  launcher.kill(SIGKILL);
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(directory.path()); }));
  int status = 0;
  ::kill(number, SIGTERM);
  ::waitpid(number, &status, 0);
  EXPECT_EQ(status, SIGTERM);
}

TEST(Launcher, HostsAreOneJobWhoseSecretIsInNoArgument) {
  const Captured result =
      symm_run({"--hosts", "127.0.0.1:2,me@localhost:1", "--launcher", "sh -c", "--port", "29000"},
          "secret=$(od -An -v -tx1 $SYMM_SECRET_FILE | tr -d ' \\n');"
          "echo $SYMM_RANK of $SYMM_SIZE, $SYMM_LOCAL_RANK of $SYMM_LOCAL_SIZE, $SYMM_BOOTSTRAP, "
          "${#secret} \"it's\";"
          "for of in /proc/[0-9]*; do case $(tr '\\0' ' ' 2>&1 <$of/cmdline) in *$secret*) echo "
          "$of;; esac; done");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(sorted_lines(result.out),
      "[0] 0 of 3, 0 of 2, tcp://127.0.0.1:29000, 64 it's\n"
      "[1] 1 of 3, 1 of 2, tcp://127.0.0.1:29000, 64 it's\n"
      "[2] 2 of 3, 0 of 1, tcp://127.0.0.1:29000, 64 it's\n");
}

TEST(Launcher, HostsAreAwaitedAndTellOfProgress) {
  const Captured result =
      capture({"env", "SYMM_RUN_TERMINAL=1", SYMM_TOOL, "run", "--hosts", "a:1,b:1", "--launcher",
          "sh -c", "--", "sh", "-c", "printf ${SYMM_RUN_TERMINAL}0%%\\\\r >&2"});
  const size_t awaited = result.err.find("waiting for a, b\r");
  const size_t last = result.err.find("waiting for ", awaited + 1);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(awaited == 4 && last < result.err.find("\033[2K\r")) << result.err;
  expect_said(result.err, {"[0] 10%\r", "[1] 10%\r"});
  EXPECT_EQ(result.err.find('\0'), std::string::npos) << result.err;
}

TEST(Launcher, APartEndsWithTheProcessThatStartedIt) {
  const std::string part =
      std::string(SYMM_TOOL) + " run --part 0:1:0123456789abcdef:localhost:1 -n 1 -- sleep 60";
  const Captured result = capture({"sh", "-c", "head -c 32 /dev/zero | tr '\\0' a | " + part});
  EXPECT_TRUE(contains(result.err, "the launcher of the job is gone")) << result.err;
  EXPECT_EQ(result.status, 128 + SIGTERM);
  for (const char* bad : {"a", "a:", "a:0", ":2", "a:2,,b:1", "-o:1", "a:x"}) {
    const Captured refused = symm_run({"--hosts", bad}, "true");
    EXPECT_EQ(refused.status, 2) << bad;
  }
}

void be_a_traced_rank() {  // as rank 0 with room for 15 calls, as rank 2 killed
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{
      std::string(getenv("SYMM_RANK")) == "0" ? 16 * sizeof(symm_trace_call_t) : limit.rlim_cur,
      limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(support::create({"nowhere://"}, 0, 0), support::Error);
  setrlimit(RLIMIT_FSIZE, &limit);

  const support::Group group = support::create({.name = "\"traced\""}, 0, 0);
  const support::Block block = support::allocate(group, 64);
  float sum = 1;
  symm_collective_options_t options = support::forced(SYMM_ALGORITHM_LL).value;
  options.tag = "\"step\"";
  for (int i = 0; i < 20; ++i) {
    support::check(
        symm_allreduce(group.get(), &sum, &sum, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, &options, nullptr));
  }

  for (int rank = 0; rank < 2 && group.rank() == 2; ++rank) {
    block.memory.wait_signal(rank, 0);
  }
  if (group.rank() == 2) raise(SIGKILL);

  support::check(symm_put_signal(block.memory.get(), 2, 0, &sum, sizeof sum, 0, nullptr, nullptr));
  EXPECT_NE(symm_barrier(group.get(), nullptr, 0, 0, nullptr, nullptr), SYMM_OK);
}

TEST(Launcher, ATimelineShowsWhatAllRanksDidAlsoWhenOneWasKilled) {
  if (getenv("SYMM_TRACE") != nullptr) return be_a_traced_rank();
  const support::TemporaryDirectory folder;
  const std::string path = folder.path() + "/t.json";
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");

  for (const Words& where :
      {Words{"-n", "3"}, Words{"--hosts", "127.0.0.1:2,localhost:1", "--launcher", "sh -c"}}) {
    expect_end(capture(Words{"env", "SYMM_RUN_TERMINAL=1", SYMM_TOOL, "run", "--trace", path} +
                       where + Words{"--", self, "--gtest_filter=Launcher.ATimeline*"}),
        128 + SIGKILL,
        {"rank 0: the first ", " calls are left out", "trace: rank 2, process ", " of 3\r"});

    const auto trace = nlohmann::json::parse(std::ifstream(path));
    expect_said(trace.dump(),
        {R"("name":"rank 0: the first )", R"("name":"rank 2")",
            R"({"algorithm":"ll","bytes":4,"dtype":"f32","group":"\"traced\"","rank":"2 of 3",)"
            R"("tag":"\"step\""})",
            R"({"bytes":4,"group":"\"traced\"","peer":2,"rank":"1 of 3"})"});

    std::map<int, Words> names;
    double begin = 0;
    double end = 0;
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] == "M") {  // the events of the next process follow
        begin = 0;
        continue;
      }
      EXPECT_GE(event["ts"], std::exchange(begin, event["ts"].get<double>())) << event;
      const double its_end = begin + event["dur"].get<double>();
      if (event["pid"] == 0 || event["name"] != "sleep") {
        names[event["pid"]].push_back(event["name"]);
        end = its_end;
      }
      EXPECT_LE(its_end, end + 0.01) << event;
      EXPECT_TRUE(event["name"] != "barrier" || event["args"].contains("failed")) << event;
    }

    Words calls{"group_create", "group_create", "rendezvous"};
    calls.resize(23, "allreduce");
    EXPECT_EQ(names[1], (calls + Words{"put", "signal", "barrier"}));
    EXPECT_EQ(names[2], (calls + Words{"wait_signal", "wait_signal"}));
  }
}

#ifdef SYMM_PROFILER
void be_a_profiled_rank() {
  const support::Group group = support::create({.name = "profiled"}, 0, 0);
  float sum = 1;
  support::check(symm_allreduce(
      group.get(), &sum, &sum, 1, SYMM_DTYPE_F32, SYMM_OP_SUM, support::tagged("step 1"), nullptr));
  support::check(support::allreduce(group, &sum, &sum, 1));
}
#endif

TEST(Launcher, AProfilerSeesTheTagsOfCalls) {
#ifdef SYMM_PROFILER
  if (getenv("NVTX_INJECTION64_PATH") != nullptr) return be_a_profiled_rank();
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const Captured result = capture({"env", "NVTX_INJECTION64_PATH=" SYMM_PROFILER, SYMM_TOOL, "run",
      "-n", "2", "--", self, "--gtest_filter=Launcher.AProfilerSeesTheTags*"});
  expect_end(result, 0, {"(allreduce \"step 1\" 4 (", "(allreduce 4 ("});
#else
  GTEST_SKIP() << "built without NVTX's headers, which come with CUDA's compiler";
#endif
}

TEST(Launcher, AProfilerSeesRangesOfCallsAndAlgorithms) {
#ifdef SYMM_PROFILER
  setenv("NVTX_INJECTION64_PATH", SYMM_PROFILER, 1);
  const Captured result = capture({SYMM_TOOL, "run", "-n", "4", "--", SYMM_DEMO});
  expect_end(
      result, 0, {"(rendezvous 0 ", "(allreduce 262148 (two_shot_staged 262148 ", "(barrier 0 "});
#else
  GTEST_SKIP() << "built without NVTX's headers, which come with CUDA's compiler";
#endif
}
}  // namespace
}  // namespace symm::tool
