// A rank dies: during each call, in each manner, alone or not.
// Every other rank is told which, long before its deadline.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "symm/symm.h"
#include "tests/ranks/failure.hpp"

namespace support {
namespace {
// `perish` runs on the victim when all have made a few rounds of the operation.
void expect_death_to_be_noticed(
    const Operation& operation, int size, int victim, const std::function<void(Member&)>& perish) {
  const auto body = [&](Member& member) {
    for (int round = 0; round < 3; ++round) {
      operation.call(member);
    }
    all_there(member.facts, size);
    if (member.rank == victim) perish(member);
    const int64_t start = now_ns();
    member.expect_blame(until_failure(member, operation), SYMM_ERR_PEER_FAILED, victim);
    EXPECT_LT(now_ns() - start, int64_t{10} * 1'000'000'000) << "half the deadline went by";
  };
  as_members(size, body, {.die = {victim}});
}

class Death : public testing::TestWithParam<Operation> {};

TEST_P(Death, BeforeTheOthersGetThere) {
  for (const int victim : {0, kRanks - 1}) {
    expect_death_to_be_noticed(GetParam(), kRanks, victim, [](Member&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      raise(SIGKILL);
    });
  }
}

TEST_P(Death, InTheMiddle) {
  for (const int victim : {0, kRanks - 1}) {
    expect_death_to_be_noticed(GetParam(), kRanks, victim, [&](Member& member) {
      die_soon(std::chrono::microseconds(3000 + 100 * victim));
      until_failure(member, GetParam());
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Each, Death, testing::ValuesIn(operations()), operation_name);

// Ranks wait for their neighbours only, and the victim is not a neighbour of rank 0.
TEST(Manner, InAHybridCubeMesh) {
  const Operation mesh{"hybrid_cube_mesh", [](Member& member) {
                         collective(member, SYMM_COLLECTIVE_ALLREDUCE,
                             SYMM_ALGORITHM_HYBRID_CUBE_MESH, 50'000, false);
                       }};
  expect_death_to_be_noticed(mesh, 8, 5, [](Member&) { raise(SIGKILL); });
}

TEST(Manner, OfEveryKind) {
  const std::function<void()> manners[] = {
      [] { _exit(7); },
      [] {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
      },
      [] {
        const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
        setrlimit(RLIMIT_CORE, &unlimited);
        if (chdir("/") != 0) _exit(1);  // where a dump is refused or at least not left in the tree
        signal(SIGABRT, SIG_DFL);
        abort();
      },
      // The process becomes another program, which lives and has its sockets: only the futex word
      // that the rank held tells the others.
      [] {
        for (int fd = 3; fd < 256; ++fd) {
          fcntl(fd, F_SETFD, 0);
        }
        execlp("sleep", "sleep", "60", nullptr);
      },
  };

  for (const auto& die : manners) {
    expect_death_to_be_noticed(operations().front(), 2, 1, [&](Member&) { die(); });
  }
}

// A forked child of the dead rank inherits its descriptors. It must
// not keep the others waiting, whether it was made by fork(), which
// the library hears of, or by a bare system call, which it does not.
TEST(Manner, AChildLivesOn) {
  for (const bool heard_of : {true, false}) {
    const Shared<pid_t> child;
    expect_death_to_be_noticed(operations().front(), 2, 1, [&](Member&) {
      const auto made =
          heard_of
              ? fork()
              : static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
      if (made == 0) sleep_for_ever();
      *child = made;
      raise(SIGKILL);
    });
    EXPECT_EQ(kill(*child, 0), 0) << "the child ought to have outlived its parent";
    kill(*child, SIGKILL);
  }
}

// Ranks of a part have other numbers than in the whole; each group is told in its own.
TEST(Several, EveryGroupNamesTheDeadByItsOwnNumbers) {
  const auto body = [](Member& member) {
    const Group reversed = member.group.split(0, -member.rank);
    const Group half = member.group.split(member.rank % 2, 0);
    all_there(member.facts, 4);
    if (member.rank == 3) raise(SIGKILL);
    const auto expect_dead = [&](const Group& group, int number) {
      const symm_status_t status = until_failure([&] { group.barrier(); });
      expect_blame(group, status, SYMM_ERR_PEER_FAILED, number, member.facts.pids[3]);
    };
    expect_dead(reversed, 0);
    expect_dead(member.group, 3);
    if (member.rank == 1) {
      expect_dead(half, 1);
    } else {
      for (int i = 0; i < 100; ++i) {
        half.barrier();  // the dead rank was none of it
      }
    }
  };

  as_members(4, body, {.die = {3}});
}

// Ranks do not depend on the process that started them.
TEST(Several, DeathOfTheParent) {
  const Bootstrap meeting;
  const Config config = meeting.processes();
  Processes processes(1, [&](int) {
    for (int rank = 0; rank < 2; ++rank) {
      if (fork() != 0) continue;
      const pid_t parent = getppid();
      {
        const Group group = create(config, rank, 2);
        say("ready " + std::to_string(rank));
        const bool orphaned = eventually([&] { return getppid() != parent; });
        group.barrier();
        const float one = 1;
        float sum = 0;
        check(allreduce(group, &one, &sum, 1));
        say((orphaned && sum == 2 ? "right " : "wrong ") + std::to_string(rank));
      }
      _exit(0);
    }

    sleep_for_ever();
  });

  EXPECT_TRUE(processes[0].hear("ready 0") && processes[0].hear("ready 1")) << processes[0].said();
  processes[0].kill(SIGKILL);
  EXPECT_TRUE(processes[0].hear("right 0") && processes[0].hear("right 1")) << processes[0].said();
  EXPECT_TRUE(eventually([&] { return std::filesystem::is_empty(meeting.path()); }));
}

// Ranks 1 and 2 fail: those in `dying` die, the others abort. Once the news has gone round, all
// ranks that live report one failure.
void fail_twice(const std::set<int>& dying, const int (&delays_us)[2]) {
  constexpr int kSize = 5;
  std::vector<int> living;
  for (int rank = 0; rank < kSize; ++rank) {
    if (!dying.contains(rank)) living.push_back(rank);
  }

  const Shared<Verdicts> verdicts;
  const auto body = [&](int rank, const Config& config, Facts& facts) {
    const Group group = create(config, rank, kSize);
    all_there(facts, kSize);
    if (rank == 1 || rank == 2) {
      std::this_thread::sleep_for(std::chrono::microseconds(delays_us[rank - 1]));
      if (dying.contains(rank)) raise(SIGKILL);
      group.abort("enough");
    }
    agreed_status(group, rank, living, *verdicts);
    all_there(facts, static_cast<int>(living.size()));
    const symm_failure_t status = group.status();
    EXPECT_EQ(outcome_of([&] { group.barrier(); }).status, status.status);
    EXPECT_EQ(last_failure().rank, status.rank);
  };

  as_ranks(kSize, body, {.die = {dying.begin(), dying.end()}});
}

TEST(Several, AllThatLiveComeToReportTheSame) {
  const char* asked = std::getenv("SYMM_TEST_DOUBLE_FAILURES");
#ifdef SYMM_UNDER_ASAN
  constexpr int kTrials = 30;
#else
  constexpr int kTrials = 150;
#endif
  const int trials = asked != nullptr ? std::atoi(asked) : kTrials;
  std::mt19937 random(815);  // NOLINT(bugprone-random-generator-seed,cert-msc32-c,cert-msc51-cpp)
  const std::set<int> dying[] = {{1, 2}, {2}, {}};

  for (int trial = 0; trial < trials && !HasFailure(); ++trial) {
    fail_twice(
        dying[trial % 3], {static_cast<int>(random() % 300), static_cast<int>(random() % 300)});
  }
}
}  // namespace
}  // namespace support
