// Groups on two machines of which a rank is killed, or one machine is cut off, at any moment of any call.
// SYMM_TRIALS=100: so many times each, and how soon the others got their error; one that hangs fails.
#include "tests/support/group.hpp"
#include <time.h>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <random>
#include <sstream>
#include "tests/machines/two_machines.hpp"

namespace support {
namespace {
double now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// Calls of all kinds until one fails: when that was, whose fault, and how it was said.
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
        const int32_t peer = static_cast<int32_t>(static_cast<unsigned>(rank) + random() % 3 + 1) % 4;
        switch (random() % 4) {
          case 0: group.barrier(); break;
          case 1: group.allreduce(part, part, SYMM_OP_MAX); break;
          case 2: block.memory.put(peer, 0, symm::Span<const float>(part)); break;
          default: block.memory.get(peer, 0, part);
        }
      }
    } catch (const Error& error) {
      std::ostringstream said;
      said << std::fixed << now_ms() << ' ' << error.rank() << ' '
           << (error.status() == SYMM_ERR_PEER_FAILED ? "" : "not peer failed: ") << error.what();
      usleep(stay_us);  // nobody shall hear of a departure first
      return said.str();
    }
  } catch (const Error& error) { return std::string(error.what()) + "\n"; }
}

class MachinesGroup : public TwoMachines {
 protected:
  // `cause` is what happens to the ranks, and `blamed` whom a survivor may name. Says how soon, at p50, p99 and most.
  void attack(
      int trials, const char* what, const std::function<int(Processes&)>& cause,
      const std::function<bool(int rank, int victim, int blamed)>& right, double most_ms,
      const std::function<void()>& mend = [] {}) {
    if (const char* wanted = getenv("SYMM_TRIALS")) trials = atoi(wanted);
    std::vector<double> latencies;
    std::mt19937 random(std::random_device{}());
    for (int trial = 0; trial < trials; ++trial) {
      Processes ranks(4, [&](int rank) {
        enter(rank);
        return work_until_failure(rank, most_ms < 10'000 ? 300'000 : 2'000'000);
      });
      for (auto& rank : ranks) {
        ASSERT_TRUE(rank.hear("\n"));
        const std::string said = rank.said();
        if (said.find("no engine") != std::string::npos || said.find("libsodium") != std::string::npos) GTEST_SKIP() << said;
        ASSERT_EQ(said[0], '\n') << said;
      }
      usleep(static_cast<useconds_t>(random() % 50'000));
      const double before = now_ms();
      const int victim = cause(ranks);
      for (int rank = 0; rank < 4; ++rank) {
        if (rank == victim) continue;
        const std::string said = ranks[rank].result();
        std::istringstream words(said);
        double at = 0;
        int blamed = -1;
        words >> at >> blamed;
        EXPECT_TRUE(right(rank, victim, blamed) && said.find("not peer failed") == std::string::npos) << rank << ": " << said;
        latencies.push_back(at - before);
      }
      mend();
    }
    std::sort(latencies.begin(), latencies.end());
    const auto part = [&](size_t percent) { return latencies[(latencies.size() - 1) * percent / 100]; };
    std::printf("%s: %d times, p50 %.1f ms, p99 %.1f ms, most %.1f ms\n", what, trials, part(50), part(99), part(100));
    EXPECT_LT(part(100), most_ms);
  }
  void break_and_mend(const char* what, const std::string& how_to_break, const std::string& how_to_mend) {
    attack(
        1, what,
        [&](Processes&) {
          EXPECT_EQ(run(how_to_break), "");
          return -1;
        },
        [](int rank, int, int blamed) { return blamed >= 0 && blamed / 2 != rank / 2; }, 10'000,
        [&] { EXPECT_EQ(run(how_to_mend), ""); });
  }
};

TEST_F(MachinesGroup, AKilledRankIsNamed) {
  attack(
      3, "a rank killed",
      [](Processes& ranks) {
        const int victim = ranks[0].pid() % 4;
        ranks[victim].kill(SIGKILL);
        return victim;
      },
      [](int, int victim, int blamed) { return blamed == victim; }, 5'000);
}

// SYMM_PEER_TIMEOUT_MS is 1000: both sides are told in 2 s on an idle machine.
TEST_F(MachinesGroup, AMachineThatIsCutOffIsNamedByBothSides) {
  break_and_mend("a machine cut off", MACHINES " link @ 10.77.0.11 down", MACHINES " link @ 10.77.0.11 up");
}

TEST_F(MachinesGroup, AMachineThatIsHeardByNobodyIsNamedByBothSides) {
  break_and_mend(
      "a machine heard by nobody", MACHINES " mute @ 10.77.0.11 10.77.0.10", MACHINES " unmute @ 10.77.0.11 10.77.0.10");
}
}  // namespace
}  // namespace support
