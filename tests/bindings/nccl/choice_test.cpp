// The choice between symm and NCCL, and the words of both for types and operations.
#include "bindings/nccl/choice.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/call.hpp"
#include "bindings/nccl/settings.hpp"
#include <symm/symm.h>

namespace symm::nccl {
namespace {
// By NCCL's numbers.
constexpr int kSum = 0;

TEST(Words, OfTypesAreNccls) {
  const std::pair<int, symm_dtype_t> pairs[] = {{0, SYMM_DTYPE_I8}, {1, SYMM_DTYPE_U8},
      {2, SYMM_DTYPE_I32}, {3, SYMM_DTYPE_U32}, {4, SYMM_DTYPE_I64}, {5, SYMM_DTYPE_U64},
      {6, SYMM_DTYPE_F16}, {7, SYMM_DTYPE_F32}, {8, SYMM_DTYPE_F64}, {9, SYMM_DTYPE_BF16},
      {10, SYMM_DTYPE_F8E4M3}, {11, SYMM_DTYPE_F8E5M2}};
  for (const auto& [theirs, ours] : pairs) {
    EXPECT_EQ(dtype_of(theirs), ours) << theirs;
  }
  EXPECT_FALSE(dtype_of(-1).has_value());
  EXPECT_FALSE(dtype_of(12).has_value());
}

TEST(Words, OfOperationsAreNccls) {
  const std::pair<int, symm_op_t> pairs[] = {
      {0, SYMM_OP_SUM}, {1, SYMM_OP_PROD}, {2, SYMM_OP_MAX}, {3, SYMM_OP_MIN}, {4, SYMM_OP_AVG}};
  for (const auto& [theirs, ours] : pairs) {
    EXPECT_EQ(op_of(theirs), ours) << theirs;
  }
  // Those of ncclRedOpCreatePreMulSum().
  EXPECT_FALSE(op_of(5).has_value());
  EXPECT_FALSE(op_of(-1).has_value());
}

Call call_of(
    symm_collective_t collective, size_t count, int type = kFloat32, int op = kSum, int root = 0) {
  return {collective, nullptr, nullptr, count, type, op, root, nullptr};
}

Settings deterministic() {
  Settings settings;
  settings.is_deterministic = true;
  return settings;
}

constexpr symm_collective_t kReductions[] = {
    SYMM_COLLECTIVE_ALLREDUCE, SYMM_COLLECTIVE_REDUCE, SYMM_COLLECTIVE_REDUCE_SCATTER};
constexpr symm_collective_t kMoves[] = {SYMM_COLLECTIVE_ALLGATHER, SYMM_COLLECTIVE_ALLTOALL,
    SYMM_COLLECTIVE_BROADCAST, SYMM_COLLECTIVE_GATHER, SYMM_COLLECTIVE_SCATTER};

TEST(Choice, TakesEveryTypeAndOperation) {
  for (int type = 0; type < 12; ++type) {
    for (const symm_collective_t collective : kReductions) {
      for (int op = 0; op < 5; ++op) {
        EXPECT_TRUE(takes({}, 2, call_of(collective, 1, type, op))) << type << " " << op;
      }
    }
    for (const symm_collective_t collective : kMoves) {
      EXPECT_TRUE(takes(deterministic(), 2, call_of(collective, 1, type))) << type;
    }
  }
  for (const symm_collective_t collective : kReductions) {
    EXPECT_FALSE(takes({}, 2, call_of(collective, 1, 12)));
    EXPECT_FALSE(takes({}, 2, call_of(collective, 1, kFloat32, -1)));
  }
}

TEST(Choice, TakesFactorsOfFloatsThatHaveF32) {
  for (int type = 0; type < 12; ++type) {
    const bool has = type == 6 || type == 7 || type >= 9;
    EXPECT_EQ(has_factors(type), has) << type;
    for (const symm_collective_t collective : kReductions) {
      EXPECT_EQ(takes(deterministic(), 2, call_of(collective, 1, type, 5)), has) << type;
      // They were not measured.
      EXPECT_FALSE(takes({}, 2, call_of(collective, 1, type, 5))) << type;
    }
  }
}

TEST(Choice, FastTakesWhatWasMeasuredToBeFaster) {
  constexpr size_t kMega = size_t{1} << 20;
  // The largest operand in megabytes with 2 ranks, and with 3 and 4.
  const std::tuple<symm_collective_t, size_t, size_t> limits[] = {
      {SYMM_COLLECTIVE_ALLREDUCE, 1024, 1024}, {SYMM_COLLECTIVE_ALLGATHER, 16, 4},
      {SYMM_COLLECTIVE_ALLTOALL, 64, 64}, {SYMM_COLLECTIVE_BROADCAST, 16, 16},
      {SYMM_COLLECTIVE_REDUCE, 64, 4}, {SYMM_COLLECTIVE_REDUCE_SCATTER, 1024, 16}};
  for (const auto& [collective, two, four] : limits) {
    const bool has_blocks = collective == SYMM_COLLECTIVE_ALLGATHER ||
                            collective == SYMM_COLLECTIVE_ALLTOALL ||
                            collective == SYMM_COLLECTIVE_REDUCE_SCATTER;
    for (const int size : {2, 3, 4}) {
      const size_t bytes = (size == 2 ? two : four) * kMega;
      const size_t most = bytes / 4 / static_cast<size_t>(has_blocks ? size : 1);
      EXPECT_TRUE(takes({}, size, call_of(collective, most))) << collective << " " << size;
      EXPECT_FALSE(takes({}, size, call_of(collective, most + 1))) << collective << " " << size;
    }
    EXPECT_FALSE(takes({}, 5, call_of(collective, 1)));
    EXPECT_FALSE(takes({}, 2, call_of(collective, SIZE_MAX)));
  }
  for (const int size : {2, 4}) {
    EXPECT_FALSE(takes({}, size, call_of(SYMM_COLLECTIVE_GATHER, 1)));
    EXPECT_FALSE(takes({}, size, call_of(SYMM_COLLECTIVE_SCATTER, 1)));
  }
}

TEST(Choice, DeterministicTakesWhatSymmCanDo) {
  const Settings settings = deterministic();
  for (const symm_collective_t collective : kReductions) {
    EXPECT_TRUE(takes(settings, 16, call_of(collective, (size_t{1} << 28) + 1)));
    EXPECT_FALSE(takes(settings, 17, call_of(collective, 1)));
    EXPECT_FALSE(takes(settings, 1, call_of(collective, 1)));
    EXPECT_FALSE(takes(settings, 2, call_of(collective, 0)));
    EXPECT_FALSE(takes(settings, 2, call_of(collective, SIZE_MAX)));
  }
}

TEST(Choice, LeavesARootThatIsNoRankToNccl) {
  for (const symm_collective_t collective : {SYMM_COLLECTIVE_BROADCAST, SYMM_COLLECTIVE_REDUCE,
           SYMM_COLLECTIVE_GATHER, SYMM_COLLECTIVE_SCATTER}) {
    EXPECT_TRUE(takes(deterministic(), 2, call_of(collective, 1, kFloat32, kSum, 1)));
    EXPECT_FALSE(takes(deterministic(), 2, call_of(collective, 1, kFloat32, kSum, 2)));
    EXPECT_FALSE(takes(deterministic(), 2, call_of(collective, 1, kFloat32, kSum, -1)));
  }
}

TEST(Choice, OfNoOperationsIsNccl) {
  Settings settings = deterministic();
  settings.collectives = kAllCollectives & ~(1U << SYMM_COLLECTIVE_BROADCAST);
  EXPECT_FALSE(takes(settings, 2, call_of(SYMM_COLLECTIVE_BROADCAST, 1)));
  EXPECT_TRUE(takes(settings, 2, call_of(SYMM_COLLECTIVE_ALLREDUCE, 1)));
  settings.collectives = 0;
  EXPECT_FALSE(takes(settings, 2, call_of(SYMM_COLLECTIVE_ALLREDUCE, 1)));
}

// Messages of any length: what a program groups progresses together.
TEST(Choice, OfMessagesIsSymmIfTheyAreNamed) {
  const auto call_to = [](int peer, size_t count = 1, int type = kFloat32) {
    return MessageCall{true, nullptr, nullptr, count, type, peer, nullptr};
  };
  Settings settings;
  EXPECT_FALSE(takes(settings, 2, call_to(1)));
  settings.collectives = kSendRecv;
  for (const size_t count : {size_t{0}, size_t{1}, size_t{1} << 40}) {
    EXPECT_TRUE(takes(settings, 2, call_to(1, count))) << count;
  }
  EXPECT_TRUE(takes(settings, 16, call_to(15)));
  EXPECT_FALSE(takes(settings, 17, call_to(15)));
  EXPECT_FALSE(takes(settings, 1, call_to(0)));
  // These are refused by NCCL.
  EXPECT_FALSE(takes(settings, 2, call_to(2)));
  EXPECT_FALSE(takes(settings, 2, call_to(-1)));
  EXPECT_FALSE(takes(settings, 2, call_to(1, 1, 12)));
  EXPECT_FALSE(takes(settings, 2, call_to(1, SIZE_MAX / 4)));
}

TEST(ListOfCollectives, IsNamesOrAllOrNone) {
  std::string reason;
  EXPECT_EQ(collectives_in("all", reason), kAllCollectives);
  EXPECT_EQ(collectives_in("none", reason), 0U);
  EXPECT_EQ(collectives_in("allreduce", reason), 1U << SYMM_COLLECTIVE_ALLREDUCE);
  EXPECT_EQ(collectives_in("allgather,allreduce,alltoall,broadcast,gather,reduce,reducescatter,"
                           "scatter",
                reason),
      kAllCollectives);
  EXPECT_EQ(collectives_in("reduce,scatter", reason),
      1U << SYMM_COLLECTIVE_REDUCE | 1U << SYMM_COLLECTIVE_SCATTER);
  EXPECT_EQ(collectives_in("all,sendrecv", reason), kAllCollectives | kSendRecv);
  EXPECT_EQ(collectives_in("sendrecv,reduce", reason), kSendRecv | 1U << SYMM_COLLECTIVE_REDUCE);
  EXPECT_EQ(reason, "");
}

TEST(ListOfCollectives, IsRefusedWithAReason) {
  const std::pair<const char*, const char*> lists[] = {{",", "a name is missing beside a comma"},
      {"allreduce,", "a name is missing beside a comma"}, {"", "a name is missing beside a comma"},
      {"none,allreduce", "none stands alone, and not in a list"},
      {"allreduce,none", "none stands alone, and not in a list"},
      {"all,none", "all stands alone, and not in a list"},
      {"all,reduce", "all stands alone, and not in a list"},
      {"sendrecv,none", "none stands alone, and not in a list"},
      {"allreduc", "allreduc is not a collective"},
      {"allreduce, reduce", " reduce is not a collective"}};
  for (const auto& [list, expected] : lists) {
    std::string reason;
    EXPECT_EQ(collectives_in(list, reason), std::nullopt) << list;
    EXPECT_EQ(reason, expected) << list;
  }
}

TEST(SettingsHash, DiffersWithEachSettingThatMustBeEqual) {
  std::set<uint64_t> hashes{hash_of(Settings{})};
  hashes.insert(hash_of(Settings{.collectives = 0}));
  hashes.insert(hash_of(Settings{.is_deterministic = true}));
  hashes.insert(hash_of(Settings{.timeout_ms = 1}));
  hashes.insert(hash_of(Settings{.timeout_ms = 2}));
  EXPECT_EQ(hashes.size(), 5U);
  EXPECT_EQ(hash_of(Settings{}), hash_of(Settings{}));
}

// Without NCCL there is nobody else.
TEST(ChoiceAlone, IsOfEverythingThatSymmHas) {
  const Settings settings;
  for (const symm_collective_t collective : kMoves) {
    for (const int size : {1, 2, 5, kMostRanks}) {
      EXPECT_TRUE(takes(settings, size, call_of(collective, size_t{1} << 32), true)) << size;
    }
    EXPECT_FALSE(takes(settings, 5, call_of(collective, 1)));
    EXPECT_FALSE(takes(settings, kMostRanks + 1, call_of(collective, 1), true));
    EXPECT_FALSE(takes(settings, 2, call_of(collective, 0), true));
    EXPECT_FALSE(takes(settings, 2, call_of(collective, size_t{1} << 62), true));
  }
  EXPECT_TRUE(takes(settings, 2, call_of(SYMM_COLLECTIVE_ALLREDUCE, 1, kFloat32, 9), true));
  EXPECT_FALSE(takes(settings, 2, call_of(SYMM_COLLECTIVE_ALLREDUCE, 1, 4, 9), true));
  Settings none;
  none.collectives = 0;
  EXPECT_FALSE(takes(none, 2, call_of(SYMM_COLLECTIVE_ALLREDUCE, 1), true));
}

// What is defined by NCCL_COLLCONFIG_INITIALIZER says nothing.
TEST(ConfigurationOfACollective, AsksForWhatItSays) {
  struct {
    CollectiveConfig config{sizeof(CollectiveConfig) + 8, kConfigMagic, 23200, nullptr, kUndefined,
        kUndefined, kUndefined, kUndefined, nullptr, 1, kUndefined, 0};
    const void* event = nullptr;
  } given;
  CollectiveConfig& config = given.config;
  const CollectiveConfig initial = config;
  EXPECT_EQ(demand_of(nullptr), Demand::nothing);
  EXPECT_EQ(demand_of(&config), Demand::nothing);
  config.tag = 5;
  config.algorithms = "";
  EXPECT_EQ(demand_of(&config), Demand::nothing);

  for (int32_t CollectiveConfig::* const field : {&CollectiveConfig::least_blocks,
           &CollectiveConfig::most_blocks, &CollectiveConfig::multicast_blocks,
           &CollectiveConfig::cluster_size, &CollectiveConfig::policy}) {
    config = initial;
    config.*field = 0;
    EXPECT_EQ(demand_of(&config), Demand::tuning);
  }
  config = initial;
  config.extensions = &config;
  EXPECT_EQ(demand_of(&config), Demand::tuning);
  config = initial;
  config.algorithms = "ring";
  EXPECT_EQ(demand_of(&config), Demand::algorithm);
  config.forces_algorithms = 0;
  EXPECT_EQ(demand_of(&config), Demand::tuning);

  given.event = &given;
  EXPECT_EQ(demand_of(&config), Demand::event);
  config.size = sizeof(CollectiveConfig);
  EXPECT_EQ(demand_of(&config), Demand::tuning) << "there is no event before 2.32";
  for (const auto& [size, magic, forces] : {std::tuple(size_t{63}, kConfigMagic, 1),
           std::tuple(size_t{64}, 0U, 1), std::tuple(size_t{64}, kConfigMagic, 2)}) {
    config = initial;
    config.size = size;
    config.magic = magic;
    config.forces_algorithms = forces;
    EXPECT_EQ(demand_of(&config), Demand::wrong);
  }
}
}  // namespace
}  // namespace symm::nccl
