// The command symm top, as its users see it.
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/group.hpp"
#include "tests/support/process.hpp"
#include "tests/tools/captured.hpp"
#include "tools/run/processes.hpp"

namespace symm::tool {
namespace {
using nlohmann::json;

TEST(Top, ShowsWhichRanksWaitAndWhichAreStoppedOrDead) {
  const std::string job = "top-test-" + std::to_string(getpid());
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      capture({"env", "SYMM_RANK=" + std::to_string(rank), "SYMM_SIZE=3", "SYMM_JOB=" + job,
          SYMM_TOOL, "bench", "allreduce", "-b", "1M", "-e", "1M", "-n", "1000000", "-c", "0",
          "--out-of-place", "--symmetric"});
    });
  }
  json group;
  const auto eventually_group = [&](const std::function<bool()>& holds) {
    const auto is_so = [&] {
      const Captured result = capture({SYMM_TOOL, "top", "--json", "--job", job});
      if (result.status != 0) return false;
      const json groups = json::parse(result.out)["groups"];
      group = groups[0];
      return groups.size() == 1 && group["ranks"].size() == 3 && holds();
    };
    return support::eventually(is_so, 60'000);
  };
  const auto rank = [&](size_t i) -> json& { return group["ranks"][i]; };
  const auto works = [&] {
    return rank(0).value("gb_per_s", 0.0) > 0 && rank(1)["call"]["bytes"] == 1 << 20;
  };
  ASSERT_TRUE(eventually_group(works)) << group;
  EXPECT_EQ(group["backend"], "host");
  EXPECT_EQ(group["name"], "bench");
  EXPECT_GT(rank(2)["calls"], 10);
  EXPECT_FALSE(group.contains("failure"));
  const pid_t first = rank(0)["pid"];
  const pid_t second = rank(1)["pid"];
  const pid_t third = rank(2)["pid"];

  kill(second, SIGSTOP);
  EXPECT_TRUE(eventually_group([&] { return group["waited_for"] == json::array({1}); })) << group;
  EXPECT_EQ(rank(1)["state"], "stopped");
  EXPECT_EQ(rank(0)["state"], "waiting");
  EXPECT_EQ(rank(0)["waits"][0]["for"], 1);
  EXPECT_GT(rank(0)["waits"][0]["seconds"], 0);
  expect_said(capture({SYMM_TOOL, "top", "--job", job}).out,
      {"job " + job + ", group 'bench' of 3, host", "waited for: rank 1"});

  kill(third, SIGSTOP);  // so that it, and its page, stay when the first dies
  kill(first, SIGKILL);
  EXPECT_TRUE(eventually_group([&] {
    return rank(0)["state"] == "dead" && rank(2)["state"] == "stopped";
  })) << group;
  kill(second, SIGKILL);
  kill(third, SIGKILL);
  for (std::thread& one : ranks) {
    one.join();
  }
  expect_end(
      capture({SYMM_TOOL, "top", "--job", job}), 1, {"no job or group '" + job + "' of this user"});
}

// A rank that is blocked by something else than a peer: the others wait for it, and the cause is
// the system call in which it sleeps.
TEST(Top, ShowsWhatABlockedRankWaitsIn) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string name = "blocked-" + std::to_string(getpid());
  const support::Bootstrap meeting;

  support::as_processes(2, [&](int rank) {
    support::Config config = meeting.processes();
    config.name = name;
    config.timeout_ms = 60'000;
    const support::Group group = support::create(config, rank, 2);
    if (rank == 1) {
      char byte = 0;
      EXPECT_EQ(read(ends[0], &byte, 1), 1);
      return group.barrier();
    }

    std::thread waits([&] { group.barrier(); });
    json shown;
    const auto is_shown = [&] {
      const Captured result = capture({SYMM_TOOL, "top", "--json", "--job", name});
      if (result.status != 0) return false;
      shown = json::parse(result.out)["groups"][0];
      const std::string state = shown["ranks"][1]["state"];
      return state.starts_with("asleep in read") && shown["waited_for"] == json::array({1});
    };
    EXPECT_TRUE(support::eventually(is_shown, 30'000)) << shown;
    expect_said(
        capture({SYMM_TOOL, "top", "--job", name}).out, {"waited for: rank 1", "asleep in read"});
    EXPECT_EQ(write(ends[1], "x", 1), 1);
    waits.join();
  });
  close(ends[0]);
  close(ends[1]);
}
// A collective that waits is shown with its tag, and the next one, which has none, without.
TEST(Top, ShowsTheTagOfACall) {
  const std::string name = "tagged-" + std::to_string(getpid());
  const support::Bootstrap meeting;
  support::Config config = meeting.threads();
  config.name = name;
  config.timeout_ms = 60'000;

  support::as_threads(2, [&](int rank) {
    const support::Group group = support::create(config, rank, 2);
    float value = 1;
    for (const char* tag : {"gradients of layer 7", ""}) {
      const auto sum = [&] {
        support::check(symm_allreduce(group.get(), &value, &value, 1, SYMM_DTYPE_F32, SYMM_OP_SUM,
            support::tagged(tag), nullptr));
      };
      if (rank == 0) {
        sum();
        group.barrier();
        continue;
      }

      json shown;
      const auto is_shown = [&] {
        const Captured result = capture({SYMM_TOOL, "top", "--json", "--job", name});
        if (result.status != 0) return false;
        shown = json::parse(result.out)["groups"][0]["ranks"][0];
        return shown.contains("call") && shown["call"].value("tag", "") == tag;
      };
      EXPECT_TRUE(support::eventually(is_shown, 30'000)) << shown;
      const std::string text = capture({SYMM_TOOL, "top", "--job", name}).out;
      EXPECT_EQ(text.find("'gradients of layer 7'") != std::string::npos, *tag != '\0') << text;
      sum();
      group.barrier();
    }
  });
}
}  // namespace
}  // namespace symm::tool
