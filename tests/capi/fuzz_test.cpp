// Calls at random, of every function of the header: with right arguments, with any of
// them replaced, on handles of several ranks, some of them released, from several
// threads at once. No call crashes, hangs or answers what it should not; no refusal
// writes an output, but for the one whose output is documented; and a new group can be
// made at any time. SYMM_TEST_FUZZ_SECONDS makes it longer, with seeds of its own.
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

#include "symm/symm.h"
#include "tests/capi/refusal.hpp"
#include "tests/support/group.hpp"

#ifdef SYMM_UNDER_TSAN
// Bytes of memory that ranks write as they like. Either side of such a race may have lost its
// stack, so calls that read or change words by atomic instructions are named, too.
extern "C" [[gnu::visibility("default")]] const char* __tsan_default_suppressions();

const char* __tsan_default_suppressions() {
  return "race:symm_put\n"
         "race:symm_get\n"
         "race:symm_fill\n"
         "race:symm_atomic\n"
         "race:symm_read_value\n"
         "race:symm_write_value\n"
         "race:symm_wait_value\n"
         "race:symm_send\n"
         "race:symm_recv\n"
         "race:symm_messages\n"
         "race:symm_exchange\n"
         "race:symm_neighbor\n";
}
#endif

namespace symm_test {
namespace {
constexpr int kCallsOfAWorld = 60;

// The handles of a thread. One that was released may become another thread's, which may
// release it under a call: so only a rank that has no other threads tries those again.
class Handles {
 public:
  explicit Handles(bool alone) : alone_(alone) {}

  ~Handles() {
    for (size_t kind = 0; kind < std::size(kHandles); ++kind) {
      for (void* handle : owned_[kind]) {
        release(kind, handle);
      }
    }
  }

  void lend(size_t kind, void* handle) { lent_[kind] = handle; }

  void own(size_t kind, void* handle) { owned_[kind].push_back(handle); }

  void* any(size_t kind, uint64_t choice) const {
    const auto& owned = owned_[kind];
    const auto& released = released_[kind];
    choice %= owned.size() + released.size() + 1;
    if (choice < owned.size()) return owned[choice];
    return choice == owned.size() ? lent_[kind] : released[choice - owned.size() - 1];
  }

  void release_one(size_t kind, uint64_t choice) {
    auto& owned = owned_[kind];
    if (owned.empty()) return;
    std::swap(owned[choice % owned.size()], owned.back());
    release(kind, owned.back());
    if (alone_) released_[kind].push_back(owned.back());
    if (released_[kind].size() > 3) released_[kind].pop_front();
    owned.pop_back();
  }

 private:
  const bool alone_;
  void* lent_[std::size(kHandles)] = {};
  std::vector<void*> owned_[std::size(kHandles)];
  std::deque<void*> released_[std::size(kHandles)];
};

// The index in kHandles of a parameter's type, or std::size(kHandles) if the type is not a handle.
size_t kind_of(const std::string& type) {
  return static_cast<size_t>(
      std::find(std::begin(kHandles), std::end(kHandles), type) - std::begin(kHandles));
}

const std::vector<const Parameter*>& parameters_of(const std::string& function) {
  static const auto all = [] {
    std::map<std::string, std::vector<const Parameter*>> made;
    for (const Parameter& one : kParameters) {
      made[one.function].push_back(&one);
    }
    return made;
  }();
  return all.at(function);
}

class Caller {
 public:
  // On handles that `other` lends for good, if it is
  // given, the calls are such that wait for nobody.
  Caller(World& world, bool alone, const Caller* other, uint64_t seed)
      : world_(world), own_(alone), other_(other), random_(seed) {
    for (size_t kind = 0; kind < std::size(kHandles); ++kind) {
      own_.lend(kind, other != nullptr ? other->first_[kind] : first_[kind]);
    }
  }

  ~Caller() { use(first_); }

  void call_one() {
    const Call& call = calls()[random_() % calls().size()];
    const auto& parameters = parameters_of(call.function);
    if (other_ != nullptr && parameters[0]->name == std::string("group")) return;

    world_.forget_outputs();
    use({any(0), any(1), any(2), any(3), any(4)});

    const size_t chosen = random_() % (parameters.size() + 1);
    uint64_t bits = 0;
    const bool changes = chosen < parameters.size() && value_for(*parameters[chosen], bits);

    const symm_status_t status = call.call(world_, changes ? chosen : SIZE_MAX, bits);
    judge(call.function, changes ? parameters[chosen]->name : "nothing", bits, status);
    keep(call.function, parameters, status == SYMM_OK);

    if (random_() % 4 == 0) own_.release_one(random_() % std::size(kHandles), random_());
  }

 private:
  void* any(size_t kind) { return own_.any(kind, random_()); }

  void use(const OneOfEach& all) {
    world_.group = static_cast<symm_group_t*>(all[0]);
    world_.buffer = static_cast<symm_buffer_t*>(all[1]);
    world_.memory = static_cast<symm_memory_t*>(all[2]);
    world_.heap = static_cast<symm_heap_t*>(all[3]);
    world_.ipc = static_cast<symm_ipc_t*>(all[4]);
    world_.exchange = static_cast<symm_exchange_t*>(all[5]);
    world_.request = static_cast<symm_request_t*>(all[6]);
  }

  // Draws a value for an argument into `bits`. Returns false for a parameter to which nothing but
  // the right value may be passed: the library believes a program that says how much memory it has.
  bool value_for(const Parameter& parameter, uint64_t& bits) {
    const std::string type = parameter.type;
    const std::string name = parameter.name;
    static const std::string kOfMemory =
        " count capacity rows row_count tokens hidden recv_stride send_stride send_count "
        "recv_count send_bytes send_capacity recv_capacity token_bytes bytes fd ";
    std::vector<const Refusal*> wrong;
    for (const Refusal& row : refusals()) {
      if (applies(row, parameter)) wrong.push_back(&row);
    }
    if (!wrong.empty() && random_() % 3 == 0) {
      bits = wrong[random_() % wrong.size()]->value(world_);
      return true;
    }

    // Without the configuration of joining(), a newcomer waits for minutes to be taken.
    if (parameter.function == std::string("symm_group_join") && name == "config") return false;
    if (kind_of(type) < std::size(kHandles)) {
      bits = world_.bits(any(random_() % std::size(kHandles)));
      if (random_() % 4 == 0) bits += 8;
      return true;
    }
    if (type.back() == '*' || type.find("_callback_t") != std::string::npos) {
      bits = 0;
      return type.back() == '*';
    }
    // A timeout of 0 is that of the group, or none at all: such a call might not end.
    if (name == "timeout_ms") {
      bits = 1 + random_() % 3;
      return true;
    }
    if (kOfMemory.find(' ' + name + ' ') != std::string::npos) {
      bits = random_() % 2;
      return true;
    }

    constexpr uint64_t kEdges[] = {
        0, 1, 2, 7, INT32_MAX, uint64_t{1} << 31, UINT32_MAX, SIZE_MAX, SIZE_MAX / 2, SIZE_MAX - 3};
    const bool is_edge = random_() % 2 == 0;
    bits = is_edge ? kEdges[random_() % std::size(kEdges)] : random_() >> random_() % 64;
    return true;
  }

  void judge(const std::string& function, const std::string& changed, uint64_t bits,
      symm_status_t status) {
    const std::string what = function + " with another " + changed + " (" + std::to_string(bits) +
                             ") says " + symm_status_string(status) + ": " +
                             (status == SYMM_OK ? "" : symm_last_error());
    EXPECT_TRUE(status <= SYMM_OK && status != SYMM_ERR_INTERNAL) << what;
    const bool is_refusal = status == SYMM_ERR_INVALID_ARGUMENT ||
                            status == SYMM_ERR_INVALID_HANDLE || status == SYMM_ERR_UNSUPPORTED ||
                            status == SYMM_ERR_NOT_FOUND;
    if (!is_refusal) return;

    const std::string message = symm_last_error();
    EXPECT_NE(message, "") << what;
    // The one refusal that writes an output: it tells for which length there is too little room.
    const bool tells_a_length = function == "symm_broadcast_bytes" && changed != "out_bytes" &&
                                message.rfind("recv_capacity", 0) == 0;
    if (tells_a_length) {
      const std::string length = " sends " + std::to_string(world_.first_word(0));
      EXPECT_NE(message.find(length), std::string::npos) << what;
      return;
    }
    EXPECT_TRUE(world_.outputs_untouched()) << what;
  }

  // Keeps what a call has made, a handle or one more reference, to be used and released. A failed
  // call leaves a null handle, so that all ranks have equally many.
  void keep(
      const std::string& function, const std::vector<const Parameter*>& parameters, bool made) {
    const size_t first = kind_of(parameters[0]->type);
    if (function.find("_retain") != std::string::npos) {
      own_.own(first, made ? world_.handles()[first] : nullptr);
    }
    if (made && function.rfind("symm_log_", 0) == 0) symm_log_remove_listener(world_.first_word(0));
    for (const Parameter* one : parameters) {
      const std::string type = one->type;
      if (type.size() < 2 || type.substr(type.size() - 2) != "**") continue;
      const size_t kind = kind_of(type.substr(0, type.size() - 1));
      if (kind < std::size(kHandles)) own_.own(kind, made ? world_.made() : nullptr);
    }
  }

  World& world_;
  Handles own_;
  const Caller* const other_;
  std::mt19937_64 random_;
  const OneOfEach first_ = world_.handles();
};

// A rank's part in one group. All ranks make the same calls while nothing sets them
// apart; unless the rank is alone in its process, a thread beside makes its own.
void live(const std::string& bootstrap, int rank, int size, bool alone, uint64_t seed,
    std::atomic<int>& ready) {
  World world(bootstrap.c_str(), rank, size);
  World beside(("thread://beside " + bootstrap + std::to_string(rank)).c_str());
  ++ready;  // before anybody may abort the group
  EXPECT_TRUE(support::eventually([&] { return ready == size; }));

  // Calls may wait for ranks that make other calls, so the time is bounded.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  Caller caller(world, alone, nullptr, seed);
  Caller other(beside, false, &caller, seed * 31 + static_cast<uint64_t>(rank));
  support::as_threads(alone ? 1 : 2, [&](int thread) {
    for (int i = 0; i < kCallsOfAWorld && std::chrono::steady_clock::now() < until; ++i) {
      (thread == 0 ? caller : other).call_one();
    }
  });
}

void fuzz(bool processes) {
  // The timeout of withdrawals and imports, which belong to no group.
  setenv("SYMM_TIMEOUT_MS", "1000", 1);

  const char* asked = std::getenv("SYMM_TEST_FUZZ_SECONDS");
  const uint64_t first = asked != nullptr ? std::random_device{}() : 1;
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::seconds(asked != nullptr ? std::atoi(asked) : 5);

  for (uint64_t seed = first;
      !testing::Test::HasFailure() && std::chrono::steady_clock::now() < until; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const int size = 1 + static_cast<int>(seed % 3);

    const support::Bootstrap meeting;
    const std::string bootstrap = (processes ? meeting.processes() : meeting.threads()).bootstrap;
    const support::Shared<std::atomic<int>> ready;

    const auto body = [&](int rank) {
      live(bootstrap, rank, size, processes || size == 1, seed, *ready);
    };
    processes ? support::as_processes(size, body) : support::as_threads(size, body);
  }
}

TEST(Fuzz, RanksThatAreThreads) { fuzz(false); }

TEST(Fuzz, RanksThatAreProcesses) {
  SYMM_NOT_UNDER_TSAN("it does not follow the threads of a forked process");
  fuzz(true);
}
}  // namespace
}  // namespace symm_test
