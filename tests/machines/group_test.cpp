// Groups on two machines of which a rank or a machine is killed, or one machine is cut off, at any
// moment of any call. With SYMM_TRIALS=100 each attack is made 100 times; the test prints how soon
// the others got their error. A rank that hangs fails the test.
#include "tests/support/group.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <ios>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/machines/two_machines.hpp"
#include "tests/support/ports.hpp"

namespace support {
namespace {
double now_ms() { return static_cast<double>(now_ns()) * 1e-6; }

// What the ranks of an attack and the test tell each other.
struct Attack {
  std::atomic<int> survivors{0};  // 0 until the test knows
  std::atomic<int> heard{0};      // survivors that have heard what happened
};

// Makes calls of all kinds until one fails. Says when that was, which rank is to blame, which
// others had failed a second later, and the error's text.
std::string work_until_failure(int rank, Attack& attack) {
  try {
    const Group group = Group::create();
    const Block block = allocate(group, 1 << 20);
    std::vector<float> data(1 << 17);
    std::vector<float> received(data.size());
    group.barrier();
    tell();

    std::mt19937 random(7);  // all ranks make equal calls
    try {
      for (;;) {
        const symm::Span<float> part(data.data(), size_t{1} << random() % 18);
        const int step = 1 + static_cast<int>(random() % 3);
        const int peer = (rank + step) % group.size();
        const int source = (rank + 3 * group.size() - step) % group.size();
        switch (random() % 5) {
          case 0: group.barrier(); break;
          case 1: group.allreduce(part, part, SYMM_OP_MAX); break;
          case 2: block.memory.put(peer, 0, symm::Span<const float>(part)); break;
          case 3: {
            const symm::Span<float> got(received.data(), part.size());
            const symm_message_t sides[] = {
                symm::sending(peer, part), symm::receiving(source, got)};
            group.messages(sides);
            break;
          }
          default: block.memory.get(peer, 0, part);
        }
      }
    } catch (const Error& error) {
      std::ostringstream said;
      said << std::fixed << now_ms() << ' ' << error.rank() << ' ';
      eventually([&] { return group.failed_ranks().size() > 1; }, 1'000);
      for (const int32_t failed : group.failed_ranks()) {
        said << failed << ',';
      }
      said << ' ' << (error.status() == SYMM_ERR_PEER_FAILED ? "" : "not peer failed: ")
           << error.what();

      // A rank that leaves has failed for those that have not heard of the attack yet.
      ++attack.heard;
      eventually([&] { return attack.survivors != 0 && attack.heard >= attack.survivors; }, 30'000);
      return said.str();
    }
  } catch (const Error& error) {
    return std::string(error.what()) + "\n";
  }
}

class MachinesGroup : public TwoMachines {
 protected:
  // Ranks that work, two on each machine. Those of m1 and on have a pid namespace of
  // their own, which ends with its first process.
  void start(int size) {
    ranks.clear();
    attack.emplace();
    const int here = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    for (int rank = 0; rank < size; ++rank) {
      if (rank == 2) {
        ASSERT_EQ(unshare(CLONE_NEWPID), 0);
        first.emplace([] { sleep_for_ever(); });
      }
      ranks.emplace_back([&, rank] {
        enter(rank, size);
        return work_until_failure(rank, **attack);
      });
    }

    ASSERT_EQ(setns(here, CLONE_NEWPID), 0);
    close(here);
    for (Process& rank : ranks) {
      ASSERT_TRUE(rank.hear("\n"));
      const std::string said = rank.said();
      if (said.find("no engine") != std::string::npos ||
          said.find("libsodium") != std::string::npos) {
        GTEST_SKIP() << said;
      }
      ASSERT_EQ(said[0], '\n') << said;
    }
  }

  // Attacks `trials` times: `strike` kills ranks and returns them, or cuts m1 off until `mend` is
  // run. Every survivor must name one of the ranks that it lost, and know of the rest. Prints how
  // soon they got their error, at p50, p99 and most.
  void run_attack(const char* what, int trials, const std::function<std::set<int>()>& strike,
      const std::string& mend = "") {
    if (const char* wanted = getenv("SYMM_TRIALS")) trials = atoi(wanted);
    const bool cuts = !mend.empty();
    std::vector<double> latencies;
    std::mt19937 random(std::random_device{}());

    for (int trial = 0; trial < trials; ++trial) {
      start(4);
      if (IsSkipped() || HasFatalFailure()) return;
      usleep(static_cast<useconds_t>(random() % 50'000));
      const double before = now_ms();
      const std::set<int> killed = strike();
      (*attack)->survivors = 4 - static_cast<int>(killed.size());

      for (int rank = 0; rank < 4; ++rank) {
        if (killed.contains(rank)) continue;
        const std::string said = ranks[static_cast<size_t>(rank)].result();
        const char* how = "";
        if (cuts) {
          how = rank < 2 ? "on m1) is cut off: m1 (10.77.0.11) has not answered m0 for 1.0 s"
                         : "on m0) is cut off: m0 (10.77.0.10) has not answered m1 for 1.0 s";
        }
        const std::set<int> other_machine = rank < 2 ? std::set{2, 3} : std::set{0, 1};
        const std::set<int> lost = cuts ? other_machine : killed;

        std::istringstream words(said);
        double at = 0;
        int blamed = -1;
        std::string failed;
        std::string expected;
        words >> at >> blamed >> failed;
        for (const int one : lost) {
          expected += std::to_string(one) + ",";
        }

        EXPECT_TRUE(lost.contains(blamed) && failed == expected &&
                    said.find("not peer failed") == std::string::npos &&
                    said.find(how) != std::string::npos)
            << rank << ": " << said;
        latencies.push_back(at - before);
      }
      EXPECT_EQ(run(mend), "");
    }

    std::sort(latencies.begin(), latencies.end());
    const auto part = [&](size_t percent) {
      return latencies[(latencies.size() - 1) * percent / 100];
    };
    std::printf("%s: %d times, p50 %.1f ms, p99 %.1f ms, most %.1f ms\n", what, trials, part(50),
        part(99), part(100));
    EXPECT_LT(part(100), cuts ? 10'000 : 5'000);
  }

  void cut_off(const char* what, const std::string& how, const std::string& mend) {
    const auto strike = [&] {
      EXPECT_EQ(run(how), "");
      return std::set<int>();
    };
    run_attack(what, 1, strike, mend);
  }

  // The first process of m1. It is destroyed after the ranks, which end with it.
  std::optional<Process> first;
  std::vector<Process> ranks;
  std::optional<Shared<Attack>> attack;
};

// The id travels by memory that all ranks share, for want of a message between these machines.
TEST_F(MachinesGroup, MeetsByAnIdOfAnyMachine) {
  struct Sent {
    std::atomic<bool> is_there{false};
    std::byte id[SYMM_UNIQUE_ID_MAX_BYTES];
  };
  for (const int maker : {0, 3}) {
    const Shared<Sent> sent;
    as_processes(4, [&](int rank) {
      enter(rank);
      if (rank == maker) {
        const symm::UniqueId id = symm::unique_id();
        std::copy(id.begin(), id.end(), sent->id);
        sent->is_there = true;
      }
      ASSERT_TRUE(eventually([&] { return sent->is_there.load(); }));

      symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
      config.create_timeout_ms = 20'000;
      const Group group = Group::create(symm::Span<const std::byte>(sent->id), rank, 4, config);
      int32_t sum = 0;
      group.allreduce(
          symm::Span<const int32_t>(&rank, 1), symm::Span<int32_t>(&sum, 1), SYMM_OP_SUM);
      EXPECT_EQ(sum, 6);
      EXPECT_EQ(group.info().machines, 2);
    });
  }
}

TEST_F(MachinesGroup, AKilledRankIsNamed) {
  run_attack("a rank killed", 3, [&] {
    const int victim = ranks[0].pid() % 4;
    ranks[static_cast<size_t>(victim)].kill(SIGKILL);
    return std::set{victim};
  });
}

// A container ends with its first process, so this machine does, too.
TEST_F(MachinesGroup, AllRanksOfAKilledMachineAreNamed) {
  run_attack("a machine killed", 3, [&] {
    first->kill(SIGKILL);
    return std::set{2, 3};
  });
}

// SYMM_PEER_TIMEOUT_MS is 1000: both sides are told in 2 s. The network has been slow,
// so TCP waits long before it sends again.
TEST_F(MachinesGroup, AMachineThatIsCutOffIsNamedByBothSides) {
  for (const char* machine : {"0", "1"}) {
    const std::string route =
        std::string("ip -n @m") + machine + " route change 10.77.0.0/24 dev v" + machine;
    ASSERT_EQ(run(route + " rto_min 15s"), "");
  }
  cut_off(
      "a machine cut off", MACHINES " link @ 10.77.0.11 down", MACHINES " link @ 10.77.0.11 up");
}

TEST_F(MachinesGroup, AMachineThatIsHeardByNobodyIsNamedByBothSides) {
  cut_off("a machine heard by nobody", MACHINES " mute @ 10.77.0.11 10.77.0.10",
      MACHINES " unmute @ 10.77.0.11 10.77.0.10");
}

// m0 hears both m1 and m2, which do not hear each other. All ranks have the error of one of these
// two.
TEST_F(MachinesGroup, APartitionThatAThirdMachineSeesIsToldToAll) {
  start(6);
  if (IsSkipped() || HasFatalFailure()) return;
  const double before = now_ms();
  EXPECT_EQ(
      run(MACHINES " mute @ 10.77.0.11 10.77.0.12; " MACHINES " mute @ 10.77.0.12 10.77.0.11"), "");
  (*attack)->survivors = 6;

  for (Process& rank : ranks) {
    const std::string said = rank.result();
    const bool by_m1 =
        said.find("m2 (10.77.0.12) has not answered m1 for 1.0 s") != std::string::npos;
    const bool by_m2 =
        said.find("m1 (10.77.0.11) has not answered m2 for 1.0 s") != std::string::npos;
    EXPECT_TRUE((by_m1 || by_m2) && said.find("not peer failed") == std::string::npos) << said;
    EXPECT_LT(std::stod(said) - before, 10'000);
  }
}

// UCX before 1.20 takes an interface for a way to the other machine if both have it with the same
// address, as the bridges of containers and virtual machines do. So it is given the interface by
// which the machines are connected, and listens nowhere else.
TEST_F(MachinesGroup, UcxUsesOnlyTheInterfaceThatConnectsTheMachines) {
  for (const char* machine : {"@m0", "@m1"}) {
    const std::string ip = std::string("exec 2>&1; ip -n ") + machine;
    ASSERT_EQ(run(ip + " link add docker0 type veth peer name docker1"), "");
    ASSERT_EQ(run(ip + " addr add 172.17.0.1/16 dev docker0"), "");
    ASSERT_EQ(run(ip + " link set docker0 up"), "");
    ASSERT_EQ(run(ip + " link set docker1 up"), "");
  }

  as_processes(4, [&](int rank) {
    enter(rank);
    unsetenv("UCX_NET_DEVICES");
    const Group group = Group::create();
    group.barrier();
    const std::string here = rank < 2 ? "0A004D0A" : "0B004D0A";
    // Rank 0 may still be about to close the store, which listens on all addresses.
    EXPECT_TRUE(eventually([&] { return listening_addresses() == std::set{here}; }))
        << testing::PrintToString(listening_addresses());
    group.finalize();
  });
}

TEST_F(MachinesGroup, ALossyAndSlowLinkHarmsNothing) {
  const std::string none =
      run("exec 2>&1; tc -n @m1 qdisc add dev v1 root netem loss 2% delay 20ms");
  if (!none.empty()) GTEST_SKIP() << "no loss and delay here: " << none;

  setenv("SYMM_PEER_TIMEOUT_MS", "10000", 1);
  as_processes(4, [&](int rank) {
    enter(rank);
    const Group group = Group::create();
    for (size_t call = 1; call < 30; ++call) {
      std::vector<float> data(call * call * 100, static_cast<float>(rank + 1));
      group.allreduce(symm::Span<float>(data), symm::Span<float>(data), SYMM_OP_SUM);
      EXPECT_EQ(
          std::count(data.begin(), data.end(), 10.0F), static_cast<std::ptrdiff_t>(data.size()));
    }
    group.finalize();
  });
}
}  // namespace
}  // namespace support
