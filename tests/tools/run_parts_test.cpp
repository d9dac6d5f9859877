#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/support/test.hpp"
#include "tools/run/job.hpp"
#include "tools/run/launcher.hpp"
#include "tools/run/processes.hpp"
#include "tools/run/streams.hpp"

namespace symm::tool {
namespace {
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

TEST(Lines, VerbatimBytesStayAsTheyAre) {
  LineAssembler lines("", false, true);
  std::string out;
  const std::string text = "a\r\n\nb\rno end";
  lines.feed(text, out);
  lines.finish(out);
  EXPECT_EQ(out, text);

  const std::string endless(3 * LineAssembler::longest_line, 'x');
  out.clear();
  lines.feed(endless, out);
  lines.finish(out);
  EXPECT_EQ(out, endless);
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

TEST(Outcome, SignalsCountAs128AndMore) {
  Outcome failed;
  EXPECT_TRUE(failed.record(0, SIGSEGV, false));
  EXPECT_EQ(failed.status(), 128 + SIGSEGV);

  Outcome told;
  EXPECT_FALSE(told.record(0, SIGINT, true)) << "a rank that was told to end has not failed";
  EXPECT_EQ(told.status(), 128 + SIGINT);

  EXPECT_EQ(Outcome().status(), 0);
}

constexpr int exited(int status) { return status << 8; }

TEST(Outcome, FirstFailureGivesTheStatus) {
  Outcome outcome;
  EXPECT_FALSE(outcome.record(0, exited(0), false));
  EXPECT_TRUE(outcome.record(1, exited(7), false));
  EXPECT_FALSE(outcome.record(2, exited(9), false));
  EXPECT_FALSE(outcome.record(3, SIGTERM, true));
  EXPECT_FALSE(outcome.record(4, SIGTERM, true));

  EXPECT_EQ(outcome.status(), 7);
  const std::vector<std::string> later = {
      "rank 2 exited with status 9", "ranks 3, 4 were killed by SIGTERM (Terminated)"};
  EXPECT_EQ(outcome.later(), later);
}

TEST(JobDirectory, ItsWardenIsThereFirst) {
  std::string seen;
  const JobDirectory directory([&](const std::string& path) {
    seen = path;
    EXPECT_FALSE(std::filesystem::exists(path))
        << "a launcher that is killed now leaves it for ever";
  });
  EXPECT_EQ(seen, directory.path());
}

TEST(JobDirectory, WhatNobodyHoldsIsStale) {
  std::string path = runtime_parent() + "/symm-run-XXXXXX";
  ASSERT_NE(::mkdtemp(path.data()), nullptr);
  const JobDirectory held;
  const auto stale = stale_job_directories(runtime_parent());
  EXPECT_NE(std::find(stale.begin(), stale.end(), path), stale.end());
  EXPECT_EQ(std::find(stale.begin(), stale.end(), held.path()), stale.end());
  const auto still_there = [&] {
    const JobDirectory another;
    return ::access(path.c_str(), F_OK) == 0;
  };

  EXPECT_TRUE(still_there()) << "its owner may be about to lock it";
  const timespec long_ago[2] = {{1'000'000, 0}, {1'000'000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), long_ago, 0), 0);
  EXPECT_FALSE(still_there());
}

TEST(Job, HasAnIdOfItsOwn) { EXPECT_NE(random_job_id(), random_job_id()); }

TEST(Descendants, ChildrenAreSeenUnlessExcepted) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }

  const auto seen = [&](const std::set<pid_t>& except) {
    return living_descendants(except).contains(child);
  };

  EXPECT_TRUE(seen({}));
  EXPECT_FALSE(seen({child}));
  EXPECT_EQ(inherited_children().count(child), 1U);
  ::kill(child, SIGKILL);
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_FALSE(seen({})) << "a zombie is not alive";
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED);
}
}  // namespace
}  // namespace symm::tool
