#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <string>

#include "tests/ranks/kill_experiment.hpp"
#include "tests/support/group.hpp"

namespace support {
namespace {
constexpr int kSizes[] = {2, 3, 4, 8};

uint64_t first_seed() {
  if (const char* given = std::getenv("SYMM_TEST_SEED")) return std::strtoull(given, nullptr, 0);
  return std::random_device{}();
}

// How many were told.
int attack(Attack attack, int times) {
  const uint64_t seed = first_seed();
  std::cout << "SYMM_TEST_SEED=" << seed << '\n';
  int told = 0;
  for (int i = 0; i < times && !testing::Test::HasFailure(); ++i) {
    const int size = kSizes[static_cast<size_t>(i) % std::size(kSizes)];
    const AttackReport report = attack_one(attack, seed + static_cast<uint64_t>(i), size);
    told += static_cast<int>(report.latencies_ms.size());
    for (const std::string& problem : report.problems) {
      ADD_FAILURE() << report.what << ": " << problem;
    }
  }

  return told;
}

TEST(Kill, AHundredAtRandomMoments) {
  constexpr int kKills = 100;
  const size_t shared_before = machine_shared_memory();
  // Almost every trial has size - 1 survivors; only in the creation phase may some of
  // them see a rank missing rather than dead.
  EXPECT_GT(attack(Attack::kill, kKills), kKills);
  // The machine does other things too, but a hundred
  // forgotten groups would hold more than half a gigabyte.
  constexpr size_t kSlack = size_t{64} << 20;
  EXPECT_TRUE(eventually([&] { return machine_shared_memory() < shared_before + kSlack; }))
      << machine_shared_memory() << " bytes, before " << shared_before;
}

TEST(Kill, AttacksOfOtherKinds) {
  for (const auto& [name, what] : kAttacks) {
    if (what != Attack::kill) attack(what, 8);
  }
}
}  // namespace
}  // namespace support
