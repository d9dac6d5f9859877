// A rank dies: during each call, in each manner, alone or not. Every other rank is told which, long before its deadline.
#include "tests/ranks/failure.hpp"

namespace support { namespace {
constexpr int kRanks = 3;

// `perish` runs on the victim when all have made a few rounds of the operation.
void expect_death_to_be_noticed(const Operation& operation, int size, int victim, const std::function<void(Member&)>& perish) {
  const auto body = [&](Member& member) {
    for (int round = 0; round < 3; ++round) operation.call(member);
    all_there(member.facts, size);
    if (member.rank == victim) perish(member);
    const int64_t start = now_ns();
    member.expect_blame(until_failure(member, operation), SYMM_ERR_PEER_FAILED, victim);
    EXPECT_LT(now_ns() - start, int64_t{10} * 1'000'000'000) << "half the deadline went by";
  };
  as_members(size, body, {victim});
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

INSTANTIATE_TEST_SUITE_P(Each, Death, testing::ValuesIn(operations()), name_of);

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
  };
  for (const auto& die : manners) expect_death_to_be_noticed(operations().front(), 2, 1, [&](Member&) { die(); });
}

// A forked child of the dead rank inherits its descriptors. It must not keep the others waiting, whether it was made by fork(),
// which the library hears of, or by a bare system call, which it does not.
TEST(Manner, AChildLivesOn) {
  for (const bool heard_of : {true, false}) {
    const Shared<pid_t> child;
    expect_death_to_be_noticed(operations().front(), 2, 1, [&](Member&) {
      const auto made = heard_of ? fork() : static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
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
    if (member.rank == 1) expect_dead(half, 1);
    else
      for (int i = 0; i < 100; ++i) half.barrier();  // the dead rank was none of it
  };
  as_members(4, body, {3});
}

// Ranks do not depend on whoever started them.
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
}}  // namespace support
