// What variables of symm do not know is refused by the call that needs it, for each variable of
// docs/environment.md.
#include <stdlib.h>

#include <cstddef>
#include <functional>
#include <set>
#include <string>

#include "symm/symm.h"
#include "tests/support/group.hpp"
#include <symm/symm.hpp>

namespace support {
namespace {
constexpr const char* kVariables[] = {
#define SYMM_SECTION(title)
#define SYMM_VARIABLE(name, fallback, meaning) name,
#include "environment.inc"
};

void alone_on_any_back_end() {
  Config config{"thread://variables", ""};
  config.backend = SYMM_BACKEND_AUTO;
  config.create_timeout_ms = config.timeout_ms = 0;
  create(config, 0, 1);
}

void as_the_launcher_says() { create({}, 0, 0); }

void export_memory() {
  const Group group = alone();
  const Block block = allocate(group, 4096);
  make_token(block.at<std::byte>(0), 4096);
}

void make_id() { symm::unique_id(); }

struct Refused {
  const char* variable;
  const char* value;
  void (*by)();
};
constexpr Refused kRefused[] = {
    {"SYMM_RANK", "x", as_the_launcher_says},
    {"SYMM_RANK", "2", as_the_launcher_says},
    {"SYMM_SIZE", "0", as_the_launcher_says},
    {"SYMM_BACKEND", "gpu", alone_on_any_back_end},
    {"SYMM_BACKEND", "HOST", alone_on_any_back_end},
    {"SYMM_BOOTSTRAP", "nowhere://", as_the_launcher_says},
    {"SYMM_DIR", "relative", as_the_launcher_says},
    {"SYMM_ID_ADDRESS", "host:99999", make_id},
    {"SYMM_CREATE_TIMEOUT_MS", "0", alone_on_any_back_end},
    {"SYMM_CREATE_TIMEOUT_MS", "1s", alone_on_any_back_end},
    {"SYMM_TIMEOUT_MS", "-1", alone_on_any_back_end},
    {"SYMM_IPC_HOLD_MS", "no", export_memory},
    {"SYMM_SPIN", "many", alone_on_any_back_end},
    {"SYMM_SPIN", "-1", alone_on_any_back_end},
    {"SYMM_SPIN", "4294967296", alone_on_any_back_end},
    {"SYMM_CHECK", "yes", alone_on_any_back_end},
    {"SYMM_CHECK", "2", alone_on_any_back_end},
    {"SYMM_CHECK", "01", alone_on_any_back_end},
    {"SYMM_ORDER", "first", alone_on_any_back_end},
    {"SYMM_HOST_TUNE", "one_shot=lots", alone_on_any_back_end},
    {"SYMM_PLAN_FILE", "/no/such/file", alone_on_any_back_end},
    {"SYMM_MULTICAST", "on", alone_on_any_back_end},
    {"SYMM_MULTICAST", "2", alone_on_any_back_end},
};

// Those that need more than one rank of a host here, by the tests that have it; those that say what
// they do not know; and those that take any text.
const std::set<std::string> kElsewhere = {"SYMM_PORT",  // tests/bootstrap/launch_test.cpp
    "SYMM_ENGINE",                                      // tests/engine/secure_link_test.cpp
    "SYMM_FABRIC",                                      // tests/cuda/memory_test.cpp
    "SYMM_CUDA_TUNE",        // tests/cuda, by the parser of SYMM_HOST_TUNE
    "SYMM_PEER_TIMEOUT_MS",  // by the parser of SYMM_TIMEOUT_MS, where machines connect
    "SYMM_LOG", "SYMM_NCCL_MODE", "SYMM_NCCL_OPS", "SYMM_NCCL_COMMS", "SYMM_NCCL_TIMEOUT_MS",
    "SYMM_NCCL_LOG", "SYMM_JOB", "SYMM_MACHINE", "SYMM_IPC_DIRECTORY", "SYMM_PMIX",
    "SYMM_SECRET_FILE", "SYMM_UCX", "SYMM_UCX_TLS", "SYMM_NCCL", "SYMM_TRACE", "SYMM_FIRST_FAILURE",
    "SYMM_SPARE", "SYMM_TICKETS",  // tests/tools/spares_test.py
    "SYMM_RUN_TERMINAL", "SYMM_LIB"};

TEST(Variables, AValueThatIsNotKnownIsRefusedWithItsName) {
  for (const Refused& row : kRefused) {
    Process process([&] {
      const bool is_launched = row.by == as_the_launcher_says;
      if (is_launched) setenv("SYMM_RANK", "0", 1);
      if (is_launched) setenv("SYMM_SIZE", "2", 1);
      setenv(row.variable, row.value, 1);
      const Outcome outcome = outcome_of(row.by);
      const std::string status = outcome.status == SYMM_OK ? "accepted" : "";
      const bool is_named = outcome.message.find(row.variable) != std::string::npos ||
                            outcome.message.find(row.value) != std::string::npos;
      return is_named ? status : status + outcome.message;
    });
    EXPECT_EQ(process.result(), "") << row.variable << "=" << row.value;
  }
}

TEST(Variables, OfSymmAreAllTried) {
  std::set<std::string> tried = kElsewhere;
  for (const Refused& row : kRefused) {
    tried.insert(row.variable);
  }
  for (const std::string name : kVariables) {
    const bool is_symms = name.starts_with("SYMM_");
    EXPECT_EQ(tried.count(name), is_symms ? 1U : 0U) << name;
  }
}

// An empty variable counts as unset, and the values of the page are taken.
TEST(Variables, ValuesOfThePageAreTaken) {
  const char* const taken[][2] = {{"SYMM_CHECK", ""}, {"SYMM_CHECK", "0"}, {"SYMM_CHECK", "1"},
      {"SYMM_MULTICAST", ""}, {"SYMM_MULTICAST", "0"}, {"SYMM_MULTICAST", "1"}, {"SYMM_FABRIC", ""},
      {"SYMM_SPIN", ""}, {"SYMM_SPIN", "0"}, {"SYMM_SPIN", "4294967295"}, {"SYMM_ORDER", ""},
      {"SYMM_ORDER", "ranks"}, {"SYMM_ORDER", "any"}, {"SYMM_ORDER", "tree"}, {"SYMM_BACKEND", ""},
      {"SYMM_BACKEND", "host"}};
  for (const auto& [name, value] : taken) {
    Process process([&, name = name, value = value] {
      setenv(name, value, 1);
      return outcome_of(alone_on_any_back_end).message;
    });
    EXPECT_EQ(process.result(), "") << name << "=" << value;
  }
}
}  // namespace
}  // namespace support
