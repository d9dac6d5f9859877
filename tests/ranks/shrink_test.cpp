// Survivors of a failure agree on who lives and go on, even if more ranks die meanwhile.
#include <poll.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/ranks/failure.hpp"

namespace support {
namespace {
bool readable(int fd) {
  pollfd look{fd, POLLIN, 0};
  return poll(&look, 1, 0) == 1 && look.revents == POLLIN;
}

std::vector<int32_t> ranks_in(const Group& whole, const Group& part) {
  std::vector<int32_t> ranks;
  for (int32_t rank = 0; rank < part.size(); ++rank) {
    ranks.push_back(whole.translate_rank(part, rank));
  }
  return ranks;
}

TEST(Shrink, TheSurvivorsOfDeathsKeepTheirOrder) {
  const auto body = [](int rank, const Config& config, Facts& facts) {
    const Group group = create(config, rank, 5);
    const int fd = group.failure_fd();
    EXPECT_EQ(group.failure_fd(), fd);
    EXPECT_FALSE(readable(fd));
    EXPECT_TRUE(group.failed_ranks().empty());
    all_there(facts, 5);
    if (rank == 1 || rank == 3) raise(SIGKILL);
    EXPECT_EQ(until_failure([&] { group.barrier({}, 1); }), SYMM_ERR_PEER_FAILED);
    EXPECT_TRUE(eventually([&] { return readable(fd); }));
    symm_group_options_t options = SYMM_GROUP_OPTIONS_INIT;
    options.name = "survivors";
    const Group rest = group.shrink(options);
    EXPECT_EQ(ranks_in(group, rest), (std::vector<int32_t>{0, 2, 4}));
    EXPECT_EQ(rest.rank(), rank / 2);
    EXPECT_STREQ(rest.info().name, "survivors");
    EXPECT_EQ(group.failed_ranks(), (std::vector<int32_t>{1, 3}));
    EXPECT_EQ(rest.translate_rank(group, 3), -1);
    EXPECT_EQ(group.peer_info(3).alive, 0);
    EXPECT_EQ(group.peer_info(4).alive, 1);
    EXPECT_EQ(group.status().status, SYMM_ERR_PEER_FAILED) << "the old one stays as it is";
    expect_sum(rest);
    const Block block = allocate(rest, 4096);
    block.at<int>((rest.rank() + 1) % 3)[0] = rank;
    rest.barrier();
    EXPECT_EQ(block.at<int>(rest.rank())[0], (rest.rank() + 2) % 3 * 2);
    rest.finalize();
  };

  as_ranks(5, body, {.die = {1, 3}});
}

TEST(Shrink, RanksThatLeftAreLeftOutAndAnAbortedGroupGoesOn) {
  const Bootstrap meeting;
  std::atomic<int> created = 0;
  as_threads(4, [&](int rank) {
    Group group = create(meeting.threads(), rank, 4);
    // The ranks meet without a barrier of the group: the abort could end a barrier for a rank that
    // has not left it yet.
    ++created;
    ASSERT_TRUE(eventually([&] { return created == 4; }));

    if (rank == 2) return group.reset();
    if (rank == 0) group.abort("enough");
    EXPECT_NE(until_failure([&] { group.barrier({}, 1); }), SYMM_OK);

    const Group rest = group.shrink();
    EXPECT_EQ(ranks_in(group, rest), (std::vector<int32_t>{0, 1, 3}));
    expect_sum(rest);

    rest.finalize();
  });
}

TEST(Shrink, ARankThatLivesAndDoesNotComeIsNamedAndTheCallCanBeRepeated) {
  const auto body = [](int rank, const Config& config, Facts& facts) {
    facts.pids[rank] = getpid();
    const Group group = create(config, rank, 3);
    group.barrier();
    if (rank == 1) sleep_for_ever();
    symm_group_options_t options = SYMM_GROUP_OPTIONS_INIT;
    options.timeout_ms = rank == 0 ? 300 : 60'000;  // whose deadline is first tells the others
    const Outcome outcome = expect_failure(SYMM_ERR_TIMEOUT, {}, [&] { group.shrink(options); });
    EXPECT_EQ(outcome.rank, 1) << outcome.message;
    EXPECT_EQ(outcome.pid, facts.pids[1]);
    EXPECT_EQ(group.status().status, SYMM_OK) << "nothing happened to the group";
    if (++facts.failed == 2) kill(static_cast<pid_t>(facts.pids[1]), SIGKILL);
    EXPECT_TRUE(eventually([&] { return !group.failed_ranks().empty(); }));
    const Group rest = group.shrink();
    EXPECT_EQ(ranks_in(group, rest), (std::vector<int32_t>{0, 2}));
    expect_sum(rest);
    rest.finalize();
  };

  as_ranks(3, body, {.die = {1}});
}

// The results of a rank, for the others to compare.
struct Got {
  std::atomic<int> status;
  std::atomic<int> size;
  std::atomic<uint64_t> id;
};

// Two ranks die while the others shrink, at any moment. All survivors have one group, made of all
// survivors and perhaps of ranks that died after it was agreed on, or they have one failure.
TEST(Shrink, RanksThatDieMeanwhileAreLeftOutByAllAlike) {
  const char* asked = std::getenv("SYMM_TEST_SHRINKS");
  const int trials = asked != nullptr ? std::atoi(asked) : 30;
  std::mt19937 random(4711);  // NOLINT(bugprone-random-generator-seed,cert-msc32-c,cert-msc51-cpp)
  constexpr int kSize = 6;

  for (int trial = 0; trial < trials; ++trial) {
    const Shared<std::array<Got, kSize>> got;
    int delays_us[kSize] = {};
    for (const int rank : {2, 4}) {
      delays_us[rank] = static_cast<int>(random() % 6000);
    }
    const auto body = [&](int rank, const Config& config, Facts& facts) {
      const Group group = create(config, rank, kSize);
      all_there(facts, kSize);
      if (rank == 3) raise(SIGKILL);
      if (delays_us[rank] != 0) die_soon(std::chrono::microseconds(delays_us[rank]));
      until_failure([&] { group.barrier({}, 1); });
      Got& mine = (*got)[static_cast<size_t>(rank)];
      symm_group_t* made = nullptr;
      mine.status = symm_group_shrink(group.get(), nullptr, &made) + 1000;
      const Group rest(made);
      if (!rest) return;
      mine.size = rest.size();
      mine.id = rest.info().id;
      // All have it, dead or alive: a barrier ends well or names one of the two.
      const Outcome outcome = outcome_of([&] {
        rest.barrier();
        rest.finalize();
      });
      if (outcome.status == SYMM_OK) return;
      EXPECT_EQ(outcome.status, SYMM_ERR_PEER_FAILED) << outcome.message;
      const int32_t whom = outcome.rank < 0 ? -1 : group.translate_rank(rest, outcome.rank);
      EXPECT_TRUE(whom == 2 || whom == 4) << outcome.message;
    };
    as_ranks(kSize, body, {.die = {2, 3, 4}});
    for (const size_t rank : {1U, 5U}) {
      EXPECT_EQ((*got)[rank].status, (*got)[0].status) << "trial " << trial;
      EXPECT_EQ((*got)[rank].size, (*got)[0].size) << "trial " << trial;
      EXPECT_EQ((*got)[rank].id, (*got)[0].id) << "trial " << trial;
    }
    EXPECT_EQ((*got)[0].status, SYMM_OK + 1000) << "trial " << trial;
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Peers, AreDescribedAndFoundInOtherGroups) {
  const Bootstrap elsewhere;
  as_processes(3, [&](int rank, const Group& group) {
    const Group reversed = create(elsewhere.processes(), 2 - rank, 3);
    const Group part = group.split(rank == 1 ? 1 : 0);
    for (int32_t peer = 0; peer < 3; ++peer) {
      const symm_group_peer_info_t info = group.peer_info(peer);
      EXPECT_EQ(info.rank, peer);
      EXPECT_EQ(info.backend, SYMM_BACKEND_HOST);
      EXPECT_EQ(info.alive, 1);
      EXPECT_STREQ(info.host, group.peer_info(rank).host);
      EXPECT_STREQ(info.machine_name, group.peer_info(rank).machine_name);
      EXPECT_NE(info.machine_name[0], '\0');
      EXPECT_NE(info.uuid[0], '\0');
      EXPECT_EQ(reversed.translate_rank(group, peer), 2 - peer);
      EXPECT_EQ(reversed.peer_info(2 - peer).pid, info.pid);
    }

    EXPECT_EQ(group.peer_info(rank).pid, getpid());
    EXPECT_EQ(part.translate_rank(group, 1), rank == 1 ? 0 : -1);
    EXPECT_EQ(group.translate_rank(part, 0), rank == 1 ? 1 : 0);
    group.barrier();
  });
}

TEST(Stats, CountWhatWasDone) {
  as_threads(2, [](int rank, const Group& group) {
    const Block block = allocate(group, 4096);
    const symm_group_stats_t before = group.stats();
    EXPECT_EQ(group.collective_stats(SYMM_COLLECTIVE_ALLREDUCE).calls, 0U);
    float values[4] = {};

    for (int i = 0; i < 5; ++i) {
      group.allreduce(symm::Span<const float>(values), symm::Span<float>(values), SYMM_OP_SUM);
    }

    group.barrier({}, 3);
    group.barrier({}, 4);
    block.memory.signal(1 - rank);
    block.memory.wait_signal(1 - rank);
    EXPECT_EQ(
        outcome_of([&] { block.memory.wait_signal(1 - rank, 1, 1); }).status, SYMM_ERR_TIMEOUT);
    const size_t own = static_cast<size_t>(rank) + 1;
    const size_t counts[] = {1, 2};
    const size_t in[] = {own, own};
    float all[4] = {};
    check(symm_allgatherv(
        group.get(), values, all, counts, nullptr, SYMM_DTYPE_F32, nullptr, nullptr));
    check(symm_reduce_scatterv(
        group.get(), values, counts, nullptr, all, SYMM_DTYPE_F32, SYMM_OP_SUM, nullptr, nullptr));
    check(symm_alltoallv(
        group.get(), values, counts, nullptr, all, in, nullptr, SYMM_DTYPE_F32, nullptr, nullptr));
    const symm_group_stats_t after = group.stats();
    EXPECT_EQ(group.collective_stats(SYMM_COLLECTIVE_ALLGATHERV).bytes, own * sizeof(float));
    EXPECT_EQ(group.collective_stats(SYMM_COLLECTIVE_REDUCE_SCATTERV).bytes, own * sizeof(float));
    EXPECT_EQ(group.collective_stats(SYMM_COLLECTIVE_ALLTOALLV).bytes, 3 * sizeof(float));
    EXPECT_EQ(group.collective_stats(SYMM_COLLECTIVE_ALLREDUCE).calls, 5U);
    EXPECT_EQ(group.collective_stats(SYMM_COLLECTIVE_ALLREDUCE).bytes, 5 * sizeof values);
    EXPECT_EQ(group.collective_stats(SYMM_COLLECTIVE_ALLTOALL).calls, 0U);
    EXPECT_EQ(group.algorithm_stats(SYMM_ALGORITHM_LL).calls, 5U);
    EXPECT_EQ(after.barriers - before.barriers, 2U);
    EXPECT_EQ(after.signals_sent, 1U);
    EXPECT_EQ(after.signals_taken, 1U);
    EXPECT_EQ(after.failures, 1U);
    EXPECT_GE(after.sleeps, 1U) << "the wait that timed out slept";
    EXPECT_GE(after.slept_ns, 100'000U);
    group.barrier();
  });
}
}  // namespace
}  // namespace support
