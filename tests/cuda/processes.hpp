// Groups of ranks that are processes on the fake driver,
// on one machine or several, with the fake NCCL.
#pragma once

#include "tests/cuda/group.hpp"

namespace symm {
// The work of a rank with its group. It may return a text, which is the result of the rank.
struct Body : std::function<std::string(const std::shared_ptr<Group>& group)> {
  template <class Does>
  Body(Does does)  // NOLINT(google-explicit-constructor): takes any function
      : function([does](const std::shared_ptr<Group>& group) -> std::string {
          if constexpr (std::is_void_v<decltype(does(group))>) {
            does(group);
            return "";
          } else {
            return does(group);
          }
        }) {}
};

struct Setting {
  std::function<void(int rank)> before = [](int) {};
  std::function<void(GroupConfig& config)> change = [](GroupConfig&) {};
  bool finalizes = true;  // unless the group has failed
  bool exits = false;
};

// Starts a rank for each letter of `layout`. Ranks with the same letter are on one machine.
inline std::unique_ptr<support::Processes> start(
    const std::string& layout, const Body& body, const Setting& with, const std::string& where) {
  const int size = static_cast<int>(layout.size());
  return std::make_unique<support::Processes>(size, [&, size](int rank) {
    setenv("SYMM_MACHINE", layout.substr(static_cast<size_t>(rank), 1).c_str(), 1);
    setenv("SYMM_NCCL", FAKE_NCCL, 1);
    with.before(rank);

    bool in_order = false;
    const std::string outcome = support::outcome_of([&] {
      // The fake driver has four devices.
      GroupConfig config = config_of(rank, size, "", rank % 4);
      config.overlapping_devices = size > 4;
      config.bootstrap = "dir://" + where;
      with.change(config);
      const auto group = Group::create(config);
      std::string said = body(group);
      in_order = with.finalizes && !group->revocation().revoked();
      if (in_order) group->finalize(20'000);
      return said;
    });

    if (with.exits) std::exit(outcome.empty() && !::testing::Test::HasFailure() ? 0 : 1);
    if (in_order) {
      EXPECT_EQ(left_in_the_end(), kNothing);
    }
    EXPECT_EQ(fake_cuda::violations(), std::vector<std::string>());

    return ::testing::Test::HasFailure() ? "an expectation failed" : outcome;
  });
}

// Runs the ranks of `layout`, and returns their results.
inline std::vector<std::string> on_machines(
    const std::string& layout, const Body& body, const Setting& with = {}) {
  const support::TemporaryDirectory where;
  std::vector<std::string> said;
  const auto ranks = start(layout, body, with, where.path());
  for (support::Process& rank : *ranks) {
    said.push_back(rank.result());
  }
  return said;
}

inline void expect_well(const std::vector<std::string>& said) {
  for (size_t rank = 0; rank < said.size(); ++rank) {
    EXPECT_EQ(said[rank], "") << "rank " << rank;
  }
}

inline void expect_all(
    const std::vector<std::string>& said, const std::vector<std::string>& words) {
  for (const std::string& one : said) {
    for (const std::string& word : words) {
      EXPECT_NE(one.find(word), std::string::npos) << word << " in: " << one;
    }
  }
}
}  // namespace symm
