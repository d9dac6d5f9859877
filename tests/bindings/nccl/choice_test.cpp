// The choice between symm and NCCL, and the words of both for types and operations.
#include "bindings/nccl/choice.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "bindings/nccl/settings.hpp"
#include <symm/symm.h>

namespace symm::nccl {
namespace {
// By NCCL's numbers.
constexpr int kFloat = 7;
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

TEST(Choice, TakesEveryTypeAndOperation) {
  for (int type = 0; type < 12; ++type) {
    for (int op = 0; op < 5; ++op) {
      EXPECT_TRUE(takes_all_reduce({}, 2, 1, type, op)) << type << " " << op;
    }
    EXPECT_FALSE(takes_all_reduce({}, 2, 1, type, 5));
  }
  EXPECT_FALSE(takes_all_reduce({}, 2, 1, 12, kSum));
}

TEST(Choice, FastTakesWhatWasMeasuredToBeFaster) {
  const size_t most = size_t{1} << 28;
  EXPECT_TRUE(takes_all_reduce({}, 2, most, kFloat, kSum));
  EXPECT_TRUE(takes_all_reduce({}, 4, most, kFloat, kSum));
  EXPECT_FALSE(takes_all_reduce({}, 2, most + 1, kFloat, kSum));
  EXPECT_FALSE(takes_all_reduce({}, 5, 1, kFloat, kSum));
  EXPECT_FALSE(takes_all_reduce({}, 2, SIZE_MAX, kFloat, kSum));
}

TEST(Choice, DeterministicTakesWhatSymmCanDo) {
  Settings settings;
  settings.is_deterministic = true;
  EXPECT_TRUE(takes_all_reduce(settings, 16, (size_t{1} << 28) + 1, kFloat, kSum));
  EXPECT_FALSE(takes_all_reduce(settings, 17, 1, kFloat, kSum));
  EXPECT_FALSE(takes_all_reduce(settings, 1, 1, kFloat, kSum));
  EXPECT_FALSE(takes_all_reduce(settings, 2, 0, kFloat, kSum));
}

TEST(Choice, OfNoOperationsIsNccl) {
  Settings settings;
  settings.collectives = 0;
  settings.is_deterministic = true;
  EXPECT_FALSE(takes_all_reduce(settings, 2, 1, kFloat, kSum));
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
  EXPECT_EQ(reason, "");
}

TEST(ListOfCollectives, IsRefusedWithAReason) {
  const std::pair<const char*, const char*> lists[] = {{",", "a name is missing beside a comma"},
      {"allreduce,", "a name is missing beside a comma"}, {"", "a name is missing beside a comma"},
      {"none,allreduce", "none stands alone, and not in a list"},
      {"allreduce,none", "none stands alone, and not in a list"},
      {"all,none", "all stands alone, and not in a list"},
      {"allreduc", "allreduc is no collective"}, {"allreduce, reduce", " reduce is no collective"}};
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
}  // namespace
}  // namespace symm::nccl
