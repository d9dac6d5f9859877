#include "core/bootstrap/bootstrap.hpp"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/launch.hpp"
#include "core/bootstrap/store.hpp"
#include "tests/support/core.hpp"

namespace {
using namespace symm;
using namespace support;
using Variables = std::vector<std::pair<std::string, std::string>>;

void expect_no_meeting(
    const BootstrapConfig& config, Status status, const std::vector<std::string>& words) {
  expect_failure(status, words, [&] { bootstrap(config, Deadline::after_ms(100)); });
}

// A process whose environment is `variables` and none of the launchers'.
Process with_environment(const Variables& variables, const std::function<std::string()>& body) {
  return Process([&] {
    clearenv();
    for (const auto& [name, value] : variables) {
      setenv(name.c_str(), value.c_str(), 1);
    }
    return outcome_of(body);
  });
}

std::string exchange(const BootstrapConfig& config) {
  const BootstrapResult meeting = bootstrap(config, soon());
  meeting.store->set(std::to_string(meeting.rank), bytes_of(std::to_string(meeting.rank)), soon());
  std::string seen;
  for (int rank = 0; rank < meeting.size; ++rank) {
    seen += text_of(meeting.store->get(std::to_string(rank), soon()));
  }
  return meeting.description + " " + std::to_string(meeting.rank) + "/" +
         std::to_string(meeting.size) + " saw " + seen;
}

TEST(Meet, UnknownSchemesGetTheKnownOnes) {
  for (const char* url : {"tcp:host:1", "env", "env://x", "dir:/x", "thread:x", "://"}) {
    expect_no_meeting({url, nullptr, 0, 2, ""}, Status::invalid_argument,
        {url, "env://", "tcp://host:port", "dir:///path", "thread://name"});
  }
}

TEST(Meet, DirectoriesAreAbsolute) {
  expect_no_meeting({"dir://relative", nullptr, 0, 2, ""}, Status::invalid_argument,
      {"dir://relative", "absolute"});
  expect_no_meeting({"dir://", nullptr, 0, 2, ""}, Status::invalid_argument, {"absolute"});
}

TEST(Meet, WithoutRanksItSaysWhatToSet) {
  for (const std::string url : {"dir:///tmp/x", "thread://x"}) {
    Process process = with_environment({}, [&] { return exchange({url, nullptr, 0, 0, ""}); });
    const std::string result = process.result();
    EXPECT_EQ(result.rfind("invalid argument", 0), 0u) << result;
    EXPECT_NE(result.find("SYMM_RANK"), std::string::npos) << result;
  }
  const StoreCallbacks callbacks;
  expect_no_meeting(
      {"", &callbacks, 0, 0, ""}, Status::invalid_argument, {"config.size", "config.store"});
}

TEST(Meet, AloneNothingIsMade) {
  const TemporaryDirectory top;
  for (const char* url : {"", "env://"}) {
    Process process = with_environment(
        {{"XDG_RUNTIME_DIR", top.path()}}, [&] { return exchange({url, nullptr, 0, 0, ""}); });
    EXPECT_EQ(process.result(), "env:// (single process) 0/1 saw 0");
  }
  EXPECT_TRUE(entries(top.path()).empty());
  EXPECT_EQ(
      exchange({"dir:///nowhere/at/all", nullptr, 0, 1, ""}), "dir:///nowhere/at/all 0/1 saw 0");
}

TEST(Meet, ThreadsMeetByNameOfBootstrapAndGroup) {
  as_threads(4, [](int thread) {
    const std::string result =
        exchange({"thread://x", nullptr, thread % 2, 2, thread < 2 ? "a" : "b"});
    ASSERT_EQ(result, "thread://x " + std::to_string(thread % 2) + "/2 saw 01");
  });
}

class MeetByVariables : public ::testing::Test {
 protected:
  // Launches three ranks, and returns what they report, one line each.
  std::string launch(const std::function<Variables(std::string rank)>& of_rank,
      const std::string& url = "env://") const {
    std::vector<Process> processes;
    for (int rank = 0; rank < 3; ++rank) {
      Variables variables = of_rank(std::to_string(rank));
      variables.emplace_back("XDG_RUNTIME_DIR", top_.path());
      processes.push_back(
          with_environment(variables, [&] { return exchange({url, nullptr, 0, 0, "name"}); }));
    }

    std::string results;
    for (Process& process : processes) {
      results += process.result() + "\n";
    }

    return results;
  }

  static std::string expected(const std::string& description) {
    std::string all;
    for (const char* rank : {"0", "1", "2"}) {
      all += description + " " + rank + "/3 saw 012\n";
    }
    return all;
  }

  static Variables by_hand(const std::string& rank) {
    return {{"SYMM_RANK", rank}, {"SYMM_SIZE", "3"}};
  }

  TemporaryDirectory top_;
};

TEST_F(MeetByVariables, OfSymm) {
  EXPECT_EQ(launch(by_hand), expected("env:// (SYMM_*)"));
  EXPECT_EQ(entries(top_ / "symm"), std::vector<std::string>{});  // nothing stays behind
}

// The job's name becomes that of a directory, whatever it is made of.
TEST_F(MeetByVariables, OfTorchrunWithAnyIdOfItsRun) {
  const auto torchrun = [](const std::string& rank) {
    return Variables{{"RANK", rank}, {"WORLD_SIZE", "3"}, {"LOCAL_RANK", rank},
        {"MASTER_ADDR", "::1"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_RUN_ID", "../a/b c"}};
  };
  EXPECT_EQ(launch(torchrun), expected("env:// (torchrun)"));
  EXPECT_EQ(entries(top_.path()), std::vector<std::string>{"symm"});
  EXPECT_EQ(entries(top_ / "symm"), std::vector<std::string>{});
}

TEST_F(MeetByVariables, InADirectoryThatIsNamed) {
  const auto in_directory = [&](const std::string& rank) {
    Variables variables = by_hand(rank);
    variables.emplace_back("SYMM_DIR", top_ / "of-symm-dir");
    return variables;
  };
  EXPECT_EQ(launch(in_directory), expected("env:// (SYMM_*)"));
  EXPECT_EQ(launch(by_hand, "dir://" + (top_ / "dir")), expected("dir://" + (top_ / "dir")));
  EXPECT_EQ(entries(top_.path()), (std::vector<std::string>{"dir", "of-symm-dir"}));
}

// A directory named in a profile, or in a program, which two jobs of one launcher
// share. A launcher of other numbers of ranks has nothing to say.
TEST_F(MeetByVariables, InADirectoryWhereAnotherJobMeetsToo) {
  for (const bool ranks_from_environment : {true, false}) {
    std::vector<Process> processes;
    for (int i = 0; i < 6; ++i) {
      const std::string rank = std::to_string(i % 2);
      const std::string job = std::to_string(i / 2);
      Variables variables{
          {"RANK", rank}, {"WORLD_SIZE", i < 4 ? "2" : "4"}, {"MASTER_PORT", "2950" + job}};
      if (i >= 4 && ranks_from_environment) variables = {{"SYMM_RANK", rank}, {"SYMM_SIZE", "2"}};
      if (ranks_from_environment) variables.emplace_back("SYMM_DIR", top_ / "shared");
      processes.push_back(with_environment(variables, [=, this] {
        const BootstrapConfig config{
            ranks_from_environment ? "env://" : "dir://" + (top_ / "shared"), nullptr, i % 2,
            ranks_from_environment ? 0 : 2, ""};
        const BootstrapResult meeting = bootstrap(config, soon());
        meeting.store->set(std::to_string(meeting.rank), bytes_of(job), soon());
        return text_of(meeting.store->get(std::to_string(1 - meeting.rank), soon()));
      }));
    }
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(processes[static_cast<size_t>(i)].result(), std::to_string(i / 2)) << i;
    }
  }
}

TEST_F(MeetByVariables, WhichRanksGivenExplicitlyOverrule) {
  std::vector<Process> processes;
  for (int rank = 0; rank < 2; ++rank) {
    processes.push_back(
        with_environment({{"XDG_RUNTIME_DIR", top_.path()}, {"SYMM_RANK", "2"}, {"SYMM_SIZE", "4"}},
            [=] { return exchange({"env://", nullptr, rank, 2, ""}); }));
  }
  EXPECT_EQ(processes[0].result(), "env:// (SYMM_*) 0/2 saw 01");
  EXPECT_EQ(processes[1].result(), "env:// (SYMM_*) 1/2 saw 01");
}

// A rank of a launcher that symm does not read forms no group of one, by whichever way; but it may
// be told its rank and size.
TEST_F(MeetByVariables, NotOfALauncherThatIsNotRead) {
  const Variables rank_of_mvapich{
      {"XDG_RUNTIME_DIR", top_.path()}, {"MV2_COMM_WORLD_RANK", "1"}, {"MV2_COMM_WORLD_SIZE", "2"}};

  for (const std::string url : {"env://", "", "thread://a", "tcp://127.0.0.1:1"}) {
    Process process = with_environment(rank_of_mvapich, [=] {
      const Failure failure = failure_of([&] { exchange({url, nullptr, 0, 0, ""}); });
      return std::to_string(static_cast<int>(failure.status)) + " " + failure.message;
    });
    const std::string result = process.result();
    EXPECT_TRUE(result.starts_with(std::to_string(static_cast<int>(Status::unavailable))))
        << result;
    EXPECT_NE(result.find("MV2_COMM_WORLD_RANK is '1'"), std::string::npos) << result;
  }

  Variables in_directory = rank_of_mvapich;
  in_directory.emplace_back("SYMM_DIR", top_ / "job");
  std::vector<Process> processes;
  for (int rank = 0; rank < 2; ++rank) {
    processes.push_back(
        with_environment(in_directory, [=] { return exchange({"env://", nullptr, rank, 2, ""}); }));
  }
  EXPECT_EQ(processes[0].result(), "env:// (single process) 0/2 saw 01");
  EXPECT_EQ(processes[1].result(), "env:// (single process) 1/2 saw 01");
}

TEST(PmiJob, IsNamedAfterTheProcessAtTheOtherEnd) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const std::string job = pmi_job(ends[0]);
  EXPECT_NE(job.find(std::to_string(getpid())), std::string::npos) << job;
  Process child([&] { return pmi_job(ends[1]); });
  EXPECT_EQ(child.result(), job);
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(failure_of([&] { pmi_job(ends[1]); }).status, Status::unavailable);
}
}  // namespace
