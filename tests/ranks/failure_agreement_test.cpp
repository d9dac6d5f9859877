// Two failures at once: once the news has gone round, all that live report the same one.
#include "tests/ranks/failure.hpp"
#include "tests/support/sanitizers.hpp"

namespace support { namespace {
constexpr int kSize = 5;

struct Reports {
  std::atomic<int> there, done;
  std::atomic<int> of[kSize];  // 0: nothing yet
};

// Of ranks 1 and 2 `dying` die, the others abort.
void fail_twice(const std::vector<int>& dying, const int (&delays_us)[2]) {
  const Bootstrap meeting;
  const Shared<Reports> reports;
  Processes ranks(kSize, [&](int rank) {
    const Group group = create(meeting.processes(), rank, kSize);
    ++reports->there;
    while (reports->there < kSize) std::this_thread::yield();
    if (rank == 1 || rank == 2) {
      std::this_thread::sleep_for(std::chrono::microseconds(delays_us[rank - 1]));
      if (std::find(dying.begin(), dying.end(), rank) != dying.end()) raise(SIGKILL);
      group.abort("enough");
    }
    while (reports->done == 0) {
      const symm_group_status_t status = group.status();
      if (status.status != SYMM_OK) reports->of[rank] = -100 * status.status + status.failed_rank;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    const symm_group_status_t status = group.status();
    const symm_status_t got = outcome_of([&] { group.barrier(); }).status;
    EXPECT_EQ(got, status.status);
    EXPECT_EQ(last_failure().rank, status.failed_rank);
  });
  const auto lives = [&](int rank) { return std::find(dying.begin(), dying.end(), rank) == dying.end(); };
  const bool agreed = eventually(
      [&] {
        for (int rank = 0; rank < kSize; ++rank)
          if (lives(rank) && (reports->of[rank] == 0 || reports->of[rank] != reports->of[0])) return false;
        return true;
      },
      5'000);
  EXPECT_TRUE(agreed) << "ranks 0, 3, 4 report " << reports->of[0] << ", " << reports->of[3] << ", " << reports->of[4];
  reports->done = 1;
  ranks.expect_success(dying);
}

TEST(Several, AllThatLiveComeToReportTheSame) {
  const char* asked = std::getenv("SYMM_TEST_DOUBLE_FAILURES");
#ifdef SYMM_UNDER_ASAN
  constexpr int kTrials = 30;
#else
  constexpr int kTrials = 150;
#endif
  const int trials = asked != nullptr ? std::atoi(asked) : kTrials;
  std::mt19937 random(815);  // NOLINT(bugprone-random-generator-seed,cert-msc32-c,cert-msc51-cpp)
  const std::vector<int> dying[] = {{1, 2}, {2}, {}};
  for (int trial = 0; trial < trials && !HasFailure(); ++trial)
    fail_twice(dying[trial % 3], {static_cast<int>(random() % 300), static_cast<int>(random() % 300)});
}
}}  // namespace support
