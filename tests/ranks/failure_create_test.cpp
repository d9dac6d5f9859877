// Creation is all or nothing, whoever is missing, dies or is stopped on the way, and leaves nothing behind.
#include "tests/ranks/failure.hpp"
#include "tests/support/file_store.hpp"
#include "tests/support/sanitizers.hpp"

namespace support { namespace {
// `fatal_call` of the victim's calls of the store is its last, or that in which it is stopped. Returns whether it made that many.
bool try_fatal_call(int victim, int fatal_call, int signal) {
  constexpr int kSize = 3;
  const Bootstrap runtime;  // where sockets go
  const TemporaryDirectory met;
  const Shared<Facts> facts;
  Processes processes(kSize, [&](int rank) {
    setenv("XDG_RUNTIME_DIR", runtime.path().c_str(), 1);
    FileStore store{met};
    store.fatal_call = rank == victim ? fatal_call : -1;
    store.signal = signal;
    const symm_store_t callbacks = store.callbacks();
    Group group;
    Outcome end = outcome_of([&] { group = create({.create_timeout_ms = 1000, .store = &callbacks}, rank, kSize); });
    if (rank == victim) {
      EXPECT_TRUE(end.status != SYMM_OK || store.calls <= fatal_call) << "went on after the others had given up";
      if (end.status == SYMM_OK) group.barrier();
      return;
    }
    if (end.status == SYMM_OK) end = outcome_of([&] { group.barrier({}, 0, 5000); });
    if (end.status != SYMM_OK) {
      EXPECT_TRUE(end.status == SYMM_ERR_TIMEOUT || (signal == SIGKILL && end.status == SYMM_ERR_PEER_FAILED)) << end.message;
      EXPECT_TRUE(names_rank(end.message, victim)) << end.message;
      EXPECT_EQ(end.rank, victim) << end.message;
    }
    facts->failed += end.status != SYMM_OK;
    ++facts->ready;
  });
  EXPECT_TRUE(eventually([&] { return facts->ready == kSize - 1; }));
  if (signal == SIGSTOP) processes[victim].kill(SIGCONT);
  const int ended = processes[victim].wait();
  const bool reached = facts->failed == kSize - 1;
  EXPECT_TRUE(reached || facts->failed == 0) << "all or nothing";
  EXPECT_TRUE(reached || (WIFEXITED(ended) && WEXITSTATUS(ended) == 0)) << ended;
  processes.expect_success(signal == SIGKILL ? std::vector<int>{victim} : std::vector<int>{});
  return reached;
}

void expect_all_or_nothing_at_each_call(int signal) {
  for (const int victim : {0, 2}) {
    int calls = 0;
    while (try_fatal_call(victim, calls, signal)) {
      ASSERT_LT(++calls, 50);
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(calls, 0) << "no call of the store was reached";
  }
}

TEST(Creation, ARankDiesInAnyCallOfTheStore) { expect_all_or_nothing_at_each_call(SIGKILL); }
TEST(Creation, ARankIsStoppedInAnyCallOfTheStore) { expect_all_or_nothing_at_each_call(SIGSTOP); }

// Whatever it needs the last one for, what it ran out of is the cause on all ranks, and nobody has died.
TEST(Creation, ARankHasFewDescriptors) {
  SYMM_NOT_UNDER_ASAN("the sanitizer itself fails without descriptors");
  int failures = 0;
  for (int left = 24; left >= 0; --left) {
    const Bootstrap meeting;
    Config config = meeting.processes();
    config.create_timeout_ms = 2000;
    Processes ranks(4, [&](int rank) {
      if (rank == 0) leave_descriptors(left);
      if (rank == 3) usleep(150'000);  // the others look for failures meanwhile
      const Outcome got = outcome_of([&] { create(config, rank, 4); });
      return std::to_string(got.status) + " " + std::to_string(got.rank) + " " + got.message;
    });
    std::vector<std::string> said;
    for (auto& rank : ranks) said.push_back(rank.result());
    // Could not even enter, or gave up before the last one came: it is missed at the deadline.
    if (std::any_of(said.begin() + 1, said.end(), [](const std::string& one) { return one.starts_with("-6 0 "); })) {
      EXPECT_TRUE(said[0].starts_with("-10 ") && said[0].find("(errno 24)") != std::string::npos) << "with " << left << said[0];
      left = std::min(left, 1);  // and with none
      continue;
    }
    for (const std::string& one : said) EXPECT_EQ(one, said[0]) << "with " << left;
    failures += said[0] != "0 -1 ";
    EXPECT_TRUE(said[0] == "0 -1 " || said[0].rfind("-10 0 ", 0) == 0) << said[0];
  }
  EXPECT_GT(failures, 5);
}
}}  // namespace support
