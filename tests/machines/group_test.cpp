// Groups on two machines of which a rank or a machine is killed, or one machine is cut off, at any moment of any call.
// SYMM_TRIALS=100: so many times each, and how soon the others got their error; one that hangs fails.
#include "tests/support/group.hpp"
#include "tests/machines/two_machines.hpp"

namespace support { namespace {
double now_ms() { return static_cast<double>(now_ns()) * 1e-6; }

// Calls of all kinds until one fails: when that was, whose fault, who else had failed a second later, and how it was said.
std::string work_until_failure(int rank, unsigned stay_us) {
  try {
    const Group group = Group::create();
    const Block block = allocate(group, 1 << 20);
    std::vector<float> data(1 << 17);
    group.barrier();
    tell();
    std::mt19937 random(7);  // all ranks make the same calls
    try {
      for (;;) {
        const symm::Span<float> part(data.data(), size_t{1} << random() % 18);
        const int32_t peer =
            static_cast<int32_t>((static_cast<unsigned>(rank) + random() % 3 + 1) % static_cast<unsigned>(group.size()));
        switch (random() % 4) {
          case 0: group.barrier(); break;
          case 1: group.allreduce(part, part, SYMM_OP_MAX); break;
          case 2: block.memory.put(peer, 0, symm::Span<const float>(part)); break;
          default: block.memory.get(peer, 0, part);
        }
      }
    } catch (const Error& error) {
      std::ostringstream said;
      said << std::fixed << now_ms() << ' ' << error.rank() << ' ';
      eventually([&] { return group.failed_ranks().size() > 1; }, 1'000);
      for (const int32_t failed : group.failed_ranks()) said << failed << ',';
      said << ' ' << (error.status() == SYMM_ERR_PEER_FAILED ? "" : "not peer failed: ") << error.what();
      usleep(stay_us);  // nobody shall hear of a departure first
      return said.str();
    }
  } catch (const Error& error) { return std::string(error.what()) + "\n"; }
}

class MachinesGroup : public TwoMachines {
 protected:
  struct Attack {
    const char* what;
    // Something happens to the ranks or to the first process of m1; the ranks that it kills.
    std::function<std::set<int>(std::vector<Process>& ranks, Process& first)> cause;
    double most_ms = 5'000;
    std::function<std::set<int>(int rank)> lost = {};                   // by a survivor; else those that are killed
    std::function<std::string(int rank)> how = [](int) { return ""; };  // words of its message
    std::function<void()> mend = [] {};
  };
  // All survivors must name one of whom they lost, and know of the others. Says how soon, at p50, p99 and most.
  void run_attack(int trials, const Attack& attack) {
    if (const char* wanted = getenv("SYMM_TRIALS")) trials = atoi(wanted);
    std::vector<double> latencies;
    std::mt19937 random(std::random_device{}());
    for (int trial = 0; trial < trials; ++trial) {
      std::optional<Process> first;  // gone when those that it takes with it are
      std::vector<Process> ranks;
      const int here = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
      ranks.reserve(4);
      for (int rank = 0; rank < 4; ++rank) {
        if (rank == 2) {  // the first of m1, which has a pid namespace of its own
          ASSERT_EQ(unshare(CLONE_NEWPID), 0);
          first.emplace([] { sleep_for_ever(); });
        }
        ranks.emplace_back([&, rank] {
          enter(rank);
          return work_until_failure(rank, attack.lost ? 2'000'000 : 300'000);
        });
      }
      ASSERT_EQ(setns(here, CLONE_NEWPID), 0);
      close(here);
      for (auto& rank : ranks) {
        ASSERT_TRUE(rank.hear("\n"));
        const std::string said = rank.said();
        if (said.find("no engine") != std::string::npos || said.find("libsodium") != std::string::npos) GTEST_SKIP() << said;
        ASSERT_EQ(said[0], '\n') << said;
      }
      usleep(static_cast<useconds_t>(random() % 50'000));
      const double before = now_ms();
      const std::set<int> killed = attack.cause(ranks, *first);
      for (int rank = 0; rank < 4; ++rank) {
        if (killed.contains(rank)) continue;
        const std::string said = ranks[static_cast<size_t>(rank)].result();
        std::istringstream words(said);
        double at = 0;
        int blamed = -1;
        std::string failed, expected;
        words >> at >> blamed >> failed;
        const std::set<int> lost = attack.lost ? attack.lost(rank) : killed;
        for (const int one : lost) expected += std::to_string(one) + ",";
        EXPECT_TRUE(lost.contains(blamed) && failed == expected && said.find("not peer failed") == std::string::npos &&
                    said.find(attack.how(rank)) != std::string::npos)
            << rank << ": " << said;
        latencies.push_back(at - before);
      }
      attack.mend();
    }
    std::sort(latencies.begin(), latencies.end());
    const auto part = [&](size_t percent) { return latencies[(latencies.size() - 1) * percent / 100]; };
    std::printf("%s: %d times, p50 %.1f ms, p99 %.1f ms, most %.1f ms\n", attack.what, trials, part(50), part(99), part(100));
    EXPECT_LT(part(100), attack.most_ms);
  }
  void break_and_mend(const char* what, const std::string& how_to_break, const std::string& how_to_mend) {
    run_attack(1, {.what = what,
                      .cause =
                          [&](std::vector<Process>&, Process&) {
                            EXPECT_EQ(run(how_to_break), "");
                            return std::set<int>();
                          },
                      .most_ms = 10'000,
                      .lost =
                          [](int rank) {
                            return rank < 2 ? std::set{2, 3} : std::set{0, 1};
                          },
                      .how =
                          [](int rank) {
                            return rank < 2 ? "on m1) is cut off: m1 (10.77.0.11) has not answered m0 for 1.0 s"
                                            : "on m0) is cut off: m0 (10.77.0.10) has not answered m1 for 1.0 s";
                          },
                      .mend = [&] { EXPECT_EQ(run(how_to_mend), ""); }});
  }
};

TEST_F(MachinesGroup, AKilledRankIsNamed) {
  run_attack(3, {"a rank killed", [](std::vector<Process>& ranks, Process&) {
                   const int victim = ranks[0].pid() % 4;
                   ranks[static_cast<size_t>(victim)].kill(SIGKILL);
                   return std::set{victim};
                 }});
}

// As a container ends: with its first process.
TEST_F(MachinesGroup, AllRanksOfAKilledMachineAreNamed) {
  run_attack(3, {"a machine killed", [](std::vector<Process>&, Process& first) {
                   first.kill(SIGKILL);
                   return std::set{2, 3};
                 }});
}

// SYMM_PEER_TIMEOUT_MS is 1000: both sides are told in 2 s. The network has been slow, so TCP waits long before it sends again.
TEST_F(MachinesGroup, AMachineThatIsCutOffIsNamedByBothSides) {
  for (const char* machine : {"0", "1"}) {
    const std::string route = std::string("ip -n @m") + machine + " route change 10.77.0.0/24 dev v" + machine;
    ASSERT_EQ(run(route + " rto_min 15s"), "");
  }
  break_and_mend("a machine cut off", MACHINES " link @ 10.77.0.11 down", MACHINES " link @ 10.77.0.11 up");
}

TEST_F(MachinesGroup, AMachineThatIsHeardByNobodyIsNamedByBothSides) {
  break_and_mend(
      "a machine heard by nobody", MACHINES " mute @ 10.77.0.11 10.77.0.10", MACHINES " unmute @ 10.77.0.11 10.77.0.10");
}

// m0 hears both m1 and m2, which do not hear each other: all have the error of one of these.
TEST_F(MachinesGroup, APartitionThatAThirdMachineSeesIsToldToAll) {
  std::vector<Process> ranks;
  for (int rank = 0; rank < 6; ++rank) {
    ranks.emplace_back([&, rank] {
      enter(rank, 6);
      return work_until_failure(rank, 2'000'000);
    });
  }
  for (Process& rank : ranks) {
    ASSERT_TRUE(rank.hear("\n"));
    const std::string said = rank.said();
    if (said.find("no engine") != std::string::npos || said.find("libsodium") != std::string::npos) GTEST_SKIP() << said;
  }
  const double before = now_ms();
  EXPECT_EQ(run(MACHINES " mute @ 10.77.0.11 10.77.0.12; " MACHINES " mute @ 10.77.0.12 10.77.0.11"), "");
  for (Process& rank : ranks) {
    const std::string said = rank.result();
    const bool by_m1 = said.find("m2 (10.77.0.12) has not answered m1 for 1.0 s") != std::string::npos;
    const bool by_m2 = said.find("m1 (10.77.0.11) has not answered m2 for 1.0 s") != std::string::npos;
    EXPECT_TRUE((by_m1 || by_m2) && said.find("not peer failed") == std::string::npos) << said;
    EXPECT_LT(std::stod(said) - before, 10'000);
  }
}

TEST_F(MachinesGroup, ALossyAndSlowLinkHarmsNothing) {
  const std::string none = run("exec 2>&1; tc -n @m1 qdisc add dev v1 root netem loss 2% delay 20ms");
  if (!none.empty()) GTEST_SKIP() << "no loss and delay here: " << none;
  setenv("SYMM_PEER_TIMEOUT_MS", "10000", 1);
  as_processes(4, [&](int rank) {
    enter(rank);
    const Group group = Group::create();
    for (size_t call = 1; call < 30; ++call) {
      std::vector<float> data(call * call * 100, static_cast<float>(rank + 1));
      group.allreduce(symm::Span<float>(data), symm::Span<float>(data), SYMM_OP_SUM);
      EXPECT_EQ(std::count(data.begin(), data.end(), 10.0F), static_cast<std::ptrdiff_t>(data.size()));
    }
    group.finalize();
  });
}
}}  // namespace support
