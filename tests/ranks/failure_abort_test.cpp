// symm_group_abort() ends every wait of every rank, and says why.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "symm/symm.h"
#include "tests/ranks/failure.hpp"

namespace support {
namespace {
constexpr char kReason[] = "the solver diverged";

void expect_aborted(const Group& group, symm_status_t status, int by) {
  expect_failed(status, SYMM_ERR_ABORTED, {kReason, "rank " + std::to_string(by)});
  EXPECT_TRUE(eventually([&] { return group.status().status != SYMM_OK; }));
  const symm_failure_t now = group.status();
  EXPECT_EQ(now.status, SYMM_ERR_ABORTED);
  EXPECT_EQ(now.rank, by);
  EXPECT_NE(std::string(now.message).find(kReason), std::string::npos) << now.message;
}

class Abort : public testing::TestWithParam<Operation> {};

// Rank 2 does not come, so ranks 0 and 1 wait. Rank 0 is released by another thread of
// its own, rank 1 by another rank, and rank 2 finds out when it comes after all.
TEST_P(Abort, ReleasesEveryWait) {
  as_members(kRanks, [&](Member& member) {
    std::jthread watchdog;
    if (member.rank == 0) {
      watchdog = std::jthread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        for (int i = 0; i < 2; ++i) {
          EXPECT_EQ(symm_group_abort(member.group.get(), kReason), SYMM_OK)
              << "once more does no harm";
        }
      });
    }
    if (member.rank == 2) {
      EXPECT_TRUE(eventually([&] { return member.facts.failed == 2; }));
    }

    expect_aborted(member.group, until_failure(member, GetParam()), 0);
    ++member.facts.failed;
    EXPECT_TRUE(eventually([&] { return member.facts.failed == kRanks; }));
  });
}

INSTANTIATE_TEST_SUITE_P(Each, Abort, testing::ValuesIn(operations()), operation_name);

// Rank 2 lives and never comes to the part.
TEST(AbortAlone, OfTheWholeEndsAPartThatIsBeingFormed) {
  std::atomic<int> told{0};
  as_threads(kRanks, [&](int rank, const Group& whole) {
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      whole.abort(kReason);
      EXPECT_TRUE(eventually([&] { return told == 2; }, 10'000))
          << "who waits for this rank was not told";
    } else {
      const auto form = [&] { whole.create_from_ranks(std::vector<int32_t>{0, 1, 2}); };
      EXPECT_EQ(expect_failure(SYMM_ERR_ABORTED, {}, form).rank, 2);
      ++told;
    }
  });
}

TEST(AbortAlone, WithoutAReason) {
  as_threads(1, [](int, const Group& group) {
    group.abort();
    expect_failed(
        symm_barrier(group.get(), nullptr, 0, 0, nullptr, nullptr), SYMM_ERR_ABORTED, {"rank 0"});
    symm_buffer_t* none = nullptr;
    EXPECT_EQ(symm_buffer_adopt(group.get(), &none, 64, nullptr, &none), SYMM_ERR_ABORTED);
  });
}

// If all ranks abort at once, one of the reasons becomes the reason of all ranks.
TEST(AbortAlone, ByAllAtOnce) {
  std::barrier all(4);
  std::mutex mutex;
  std::string reasons[4];

  as_threads(4, [&](int rank, const Group& group) {
    all.arrive_and_wait();
    group.abort(("reason " + std::to_string(rank)).c_str());
    EXPECT_EQ(symm_barrier(group.get(), nullptr, 0, 0, nullptr, nullptr), SYMM_ERR_ABORTED);

    EXPECT_TRUE(eventually([&] {
      const std::lock_guard lock(mutex);
      reasons[rank] = group.status().message;
      return std::all_of(
          reasons, reasons + 4, [&](const std::string& reason) { return reason == reasons[0]; });
    })) << reasons[rank];
  });
}
}  // namespace
}  // namespace support
