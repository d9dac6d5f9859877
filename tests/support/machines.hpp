// Ranks across machines, which SYMM_MACHINE makes of this host, over the engine that is found here.
#pragma once

#include "tests/support/group.hpp"

namespace support {
#ifdef SYMM_UNDER_TSAN
// The status of a process in which ThreadSanitizer reports something: it does not see an order that
// comes by way of another process.
constexpr int kAlso = 66;
#else
constexpr int kAlso = 0;
#endif
// Runs `body` on ranks in processes. Rank i is on the machine that letter i of `layout` names.
// Returns what each rank said.
inline std::vector<std::string> on_machines(
    const std::string& layout, const std::function<std::string(int rank, const Group& group)>& body,
    const std::function<void(int rank)>& before = [](int) {}) {
  const Bootstrap meeting;
  const Config config = meeting.processes();
  Processes ranks(static_cast<int>(layout.size()), [&](int rank) {
    setenv("SYMM_MACHINE", layout.substr(static_cast<size_t>(rank), 1).c_str(), 1);
    before(rank);
    try {
      const Group group = create(config, rank, static_cast<int>(layout.size()));
      std::string said = body(rank, group);
      if (group.status().status == SYMM_OK) group.finalize();
      return said;
    } catch (const Error& error) {
      return std::string("failed: ") + error.what();
    }
  });

  std::vector<std::string> said;
  for (Process& rank : ranks) {
    said.push_back(rank.result(kAlso));
  }

  return said;
}

// Runs `body` on such ranks, and expects that all of its expectations hold, and that it ends: a
// process may end by a signal later, as ThreadSanitizer has it where UCX is loaded.
inline void expect_on_machines(const std::string& layout, const GroupBody& body) {
  const auto go = [&](int rank, const Group& group) {
    body(rank, group);
    return "done";
  };
  for (const std::string& said : on_machines(layout, go)) {
    EXPECT_EQ(said, "done");
  }
}

class Multinode : public testing::Test {
 protected:
  ~Multinode() override {
    unsetenv("SYMM_HOST_TUNE");
    unsetenv("SYMM_ORDER");
  }
  // Runs `body` on four ranks: two neighbours on each machine, a machine for each rank, machines of
  // unequal size, and neighbours in rank order on different machines.
  static void expect_on_all_layouts(const GroupBody& body) {
#if defined(SYMM_UNDER_ASAN) || defined(SYMM_UNDER_TSAN)  // four times as long
    for (const char* layout : {"aabb"}) {
      expect_on_machines(layout, body);
    }
#else
    for (const char* layout : {"aabb", "abcd", "aaab", "abab"}) {
      expect_on_machines(layout, body);
    }
#endif
  }
  void SetUp() override {
    const std::string said = on_machines("ab", [](int, const Group&) { return ""; })[0];
    if (said.find("no engine") != std::string::npos) GTEST_SKIP() << said;
  }
};
}  // namespace support
