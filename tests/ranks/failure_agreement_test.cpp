// Two failures at once: once the news has gone round, all that live report the same one.
#include "tests/ranks/failure.hpp"
#include "tests/support/sanitizers.hpp"

namespace support { namespace {
constexpr int kSize = 5;

// Of ranks 1 and 2 `dying` die, the others abort.
void fail_twice(const std::vector<int>& dying, const int (&delays_us)[2]) {
  std::vector<int> living;
  for (int rank = 0; rank < kSize; ++rank)
    if (std::find(dying.begin(), dying.end(), rank) == dying.end()) living.push_back(rank);
  const Shared<Verdicts> verdicts;
  const auto body = [&](int rank, const Config& config, Facts& facts) {
    const Group group = create(config, rank, kSize);
    all_there(facts, kSize);
    if (rank == 1 || rank == 2) {
      std::this_thread::sleep_for(std::chrono::microseconds(delays_us[rank - 1]));
      if (std::find(dying.begin(), dying.end(), rank) != dying.end()) raise(SIGKILL);
      group.abort("enough");
    }
    agreed_status(group, rank, living, *verdicts);
    all_there(facts, static_cast<int>(living.size()));
    const symm_group_status_t status = group.status();
    EXPECT_EQ(outcome_of([&] { group.barrier(); }).status, status.status);
    EXPECT_EQ(last_failure().rank, status.failed_rank);
  };
  as_ranks(kSize, body, dying);
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
