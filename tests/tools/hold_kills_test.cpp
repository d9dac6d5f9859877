// Makers, holders and readers of versions are killed at any moment, and start anew. No reader sees
// a mixed version, no call goes beyond its deadline, and nothing is left in the end.
// SYMM_TEST_KILLS is the number of kills.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "symm/symm.hpp"
#include "tests/capi/ipc/weights.hpp"
#include "tests/tools/holding.hpp"

namespace support {
namespace {
constexpr uint64_t kTimeoutMs = 20'000;
// Beyond a deadline, for processes that share two processors with many others.
constexpr int64_t kSlackMs = 10'000;

struct Seen {
  std::atomic<int> version;  // the last that any maker has taken
  std::atomic<int> reads;
  std::atomic<int> mixed;
  std::atomic<int> late;
  std::atomic<int> strange;
  char message[512];  // of the first call that failed as none should
};

class HoldKills : public testing::Test {
 protected:
  // Takes the time of a call that may wait, and notes a failure that no kill explains.
  void attempt(const std::function<void()>& call) const {
    const auto begun = std::chrono::steady_clock::now();
    const Outcome outcome = outcome_of(call);
    const auto took = std::chrono::steady_clock::now() - begun;
    if (took > std::chrono::milliseconds(kTimeoutMs + kSlackMs)) ++seen->late;
    const bool is_explained = outcome.status == SYMM_OK ||
                              outcome.status == SYMM_ERR_INVALID_HANDLE ||
                              outcome.status == SYMM_ERR_PEER_FAILED;
    if (!is_explained && seen->strange++ == 0) {
      std::strncpy(seen->message, outcome.message.c_str(), sizeof seen->message - 1);
    }
  }

  // Publishes versions in three pairs of blocks in turn, each of which it writes anew when nobody
  // holds what was there.
  void make() const {
    std::array<std::unique_ptr<Weights>, 3> weights;
    std::array<int, 3> versions{};
    for (size_t turn = 0;; turn = (turn + 1) % weights.size()) {
      const int next = ++seen->version;
      if (!weights[turn]) {
        weights[turn] = std::make_unique<Weights>(next);
      } else {
        const auto old = static_cast<uint64_t>(versions[turn]);
        attempt([&] { symm::ipc_withdraw_version(name_, old, {kTimeoutMs}); });
        std::fill_n(weights[turn]->first.at<int>(), kInts, next);
        std::fill_n(weights[turn]->second.at<int>(), kInts, next);
      }
      versions[turn] = next;
      attempt(
          [&] { symm::ipc_publish(name_, static_cast<uint64_t>(next), weights[turn]->token()); });
    }
  }

  void read() const {
    symm_ipc_lookup_options_t looking = SYMM_IPC_LOOKUP_OPTIONS_INIT;
    looking.timeout_ms = kTimeoutMs;
    for (;;) {
      attempt([&] {
        const symm::PublishedVersion found = symm::ipc_lookup(name_, SYMM_COMPARE_GE, 0, looking);
        const Import bundle = import_for_reading(found.token);
        if (version_of(bundle) != static_cast<int>(found.version)) ++seen->mixed;
        ++seen->reads;
      });
    }
  }

  std::unique_ptr<Process> start(size_t role) const {
    return std::make_unique<Process>([this, role] {
      if (role == 0) return make();
      if (role == 1) become_holder({name_});
      read();
    });
  }

  const Directory directory;
  const Shared<Seen> seen;
  const std::string name_ = "kills-" + std::to_string(getpid());
};

TEST_F(HoldKills, LeaveNothingAndMixNothing) {
  const char* const asked = std::getenv("SYMM_TEST_KILLS");
  const int kills = asked != nullptr ? std::atoi(asked) : 60;
  const size_t readers = asked != nullptr ? 8 : 3;
  const size_t shared_before = machine_shared_memory();
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);

  std::vector<std::unique_ptr<Process>> roles;
  for (size_t role = 0; role < 2 + readers; ++role) {
    roles.push_back(start(role));
  }
  for (int kill = 0; kill < kills; ++kill) {
    usleep(static_cast<useconds_t>(random() % 6000));
    const size_t victim = random() % roles.size();
    roles[victim]->kill(SIGKILL);
    ASSERT_TRUE(roles[victim]->reap(20'000));
    roles[victim] = start(victim);
  }

  const int reads = seen->reads;
  const int version = seen->version;
  expect_eventually("readers go on", [&] { return seen->reads > reads + 10; });
  expect_eventually("the maker goes on", [&] { return seen->version > version + 3; });
  for (const auto& role : roles) {
    role->kill(SIGKILL);
    EXPECT_TRUE(role->reap(20'000));
  }

  EXPECT_EQ(seen->mixed, 0);
  EXPECT_EQ(seen->late, 0);
  EXPECT_EQ(seen->strange, 0) << seen->message;
  constexpr size_t kSlack = size_t{64} << 20;  // other processes of the machine
  EXPECT_TRUE(eventually([&] { return machine_shared_memory() < shared_before + kSlack; }));
}
}  // namespace
}  // namespace support
