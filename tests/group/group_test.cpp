#include "tests/support/group.hpp"

#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "symm/symm.h"

namespace support {
namespace {
TEST(Group, IsOnOneMachineHere) {
  as_processes(2, [](int rank, const Group& group) {
    const symm_group_info_t info = group.info();
    EXPECT_EQ(info.machines, 1);
    EXPECT_EQ(info.machine, 0);
    EXPECT_EQ(info.local_rank, rank);
    EXPECT_EQ(info.local_size, 2);
    EXPECT_STREQ(info.engine, "");
    EXPECT_EQ(group.peer_info(1 - rank).machine, 0);
    EXPECT_EQ(group.peer_info(1 - rank).mapped, 1);
    group.barrier();
  });
}

// Ranks of the host share its memory, without links. A rank that is bound to a processor has the
// node of that processor, which says how near it is.
TEST(Group, TheTopologyOfTheHostIsOneDevice) {
  const Bootstrap meeting;
  as_processes(2, [&](int rank) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    const bool is_bound = sched_setaffinity(0, sizeof one, &one) == 0;
    const Group group = create(meeting.processes(), rank, 2);
    const symm::Topology topology = group.topology();
    EXPECT_EQ(topology.topology_class, SYMM_TOPOLOGY_FULLY_CONNECTED);
    EXPECT_EQ(topology.links, std::vector<int32_t>(4));

    EXPECT_EQ(group.peer_info(rank).locality, SYMM_LOCALITY_SAME_DEVICE);
    const symm_group_peer_info_t other = group.peer_info(1 - rank);
    EXPECT_EQ(other.links, 0);
    EXPECT_EQ(other.numa_node, group.peer_info(rank).numa_node);
    EXPECT_EQ(other.locality,
        other.numa_node >= 0 ? SYMM_LOCALITY_SAME_NODE : SYMM_LOCALITY_SAME_MACHINE);
    EXPECT_TRUE(
        !is_bound || other.numa_node == 0 || access("/sys/devices/system/node/online", R_OK) != 0);

    int32_t of_class = 0;
    size_t count = 0;
    check(symm_group_topology(group.get(), &of_class, nullptr, 0, &count));
    EXPECT_EQ(count, 4);
    group.barrier();
  });
}

TEST(Group, RanksOfAnotherMachineHaveNoKnownLinks) {
  const Bootstrap meeting;
  as_processes(2, [&](int rank) {
    setenv("SYMM_MACHINE", rank == 0 ? "a" : "b", 1);
    setenv("SYMM_SECRET_FILE", (meeting / "secret").c_str(), 1);
    setenv("SYMM_ENGINE", "secure", 1);
    const Outcome outcome = outcome_of([&] {
      const Group group = create(meeting.processes(), rank, 2);
      EXPECT_EQ(group.peer_info(1 - rank).locality, SYMM_LOCALITY_OTHER_MACHINE);
      EXPECT_EQ(group.peer_info(1 - rank).links, -1);
      EXPECT_EQ(group.topology().topology_class, SYMM_TOPOLOGY_UNKNOWN);
      EXPECT_EQ(group.topology().links, (std::vector<int32_t>{0, -1, -1, 0}));
      group.barrier();
    });
    const bool cannot = outcome.message.find("libsodium") != std::string::npos;
    EXPECT_TRUE(outcome.status == SYMM_OK || cannot) << outcome.message;
  });
}

// The configuration of a group is also that of the groups made of it.
TEST(Group, ChannelsAndScratchAsConfigured) {
  const Bootstrap meeting;
  Config config = meeting.threads();
  config.channels = 256;
  config.scratch_bytes = 100'000;
  as_threads(2, [&](int rank) {
    const Group group = create(config, rank, 2);
    const Group part = group.split(0);
    for (const Group* of : {&group, &part}) {
      const symm_group_info_t info = of->info();
      EXPECT_EQ(info.channels, 256);
      EXPECT_EQ(info.scratch_bytes, 98'304U) << "two halves of whole pages";
      of->barrier({}, 255);
      EXPECT_EQ(
          symm_barrier(of->get(), nullptr, 0, 256, nullptr, nullptr), SYMM_ERR_INVALID_ARGUMENT);
      // Through scratch of each size.
      for (const size_t count : {size_t{1}, size_t{3000}, size_t{300'000}}) {
        std::vector<float> values(count, static_cast<float>(rank + 1));
        of->allreduce(values, values, SYMM_OP_SUM);
        EXPECT_EQ(std::count(values.begin(), values.end(), 3.0F), std::ptrdiff_t(count));
      }
    }

    EXPECT_EQ(part.info().max_channels, 256);
    EXPECT_EQ(part.info().max_name_bytes, 63);
    EXPECT_EQ(part.info().max_handles, 1 << 20);
    EXPECT_EQ(part.info().max_memories, 0);
    EXPECT_GT(part.info().max_ranks, 1000);
    group.barrier();
  });
}

TEST(Group, RanksThatAreConfiguredDifferently) {
  struct {
    int32_t channels[2];
    uint64_t scratch_bytes[2];
    const char* said;
  } const rows[] = {{{0, 32}, {0, 0}, "config.channels: rank 0 has 64, rank 1 has 32"},
      {{0, 0}, {0, 1 << 20}, "config.scratch_bytes: rank 0 has 0, rank 1 has 1048576"}};

  for (const auto& row : rows) {
    const Bootstrap meeting;
    as_threads(2, [&](int rank) {
      Config config = meeting.threads();
      config.channels = row.channels[rank];
      config.scratch_bytes = row.scratch_bytes[rank];
      EXPECT_EQ(
          expect_failure(SYMM_ERR_MISMATCH, {row.said}, [&] { create(config, rank, 2); }).rank, 1);
    });
  }
}

// How a group of two plans, and what becomes of it.
class PlanFile : public testing::Test {
 protected:
  ~PlanFile() override {
    unsetenv("SYMM_PLAN_FILE");
    unsetenv("SYMM_HOST_TUNE");
  }

  void write(const std::string& text) const {
    std::ofstream(path_) << text;
    setenv("SYMM_PLAN_FILE", path_.c_str(), 1);
  }

  static symm_algorithm_t planned(const Group& group, size_t bytes) {
    const std::vector<std::byte> data(bytes);
    symm_plan_info_t plan;
    const auto call =
        call_of(SYMM_COLLECTIVE_ALLREDUCE, data.data(), data.data(), bytes, SYMM_DTYPE_U8);
    check(plan_of(group.get(), call, nullptr, plan));
    return plan.algorithm;
  }

  const TemporaryDirectory folder_;
  const std::string path_ = folder_ / "plan.txt";
};

TEST_F(PlanFile, AGroupFollowsIt) {
  write("[host 2]\nll = 8\none_shot = 100K\n");
  as_threads(2, [](int, const Group& group) {
    EXPECT_EQ(planned(group, 8), SYMM_ALGORITHM_LL);
    EXPECT_EQ(planned(group, 9), SYMM_ALGORITHM_ONE_SHOT);
    EXPECT_EQ(planned(group, 102400), SYMM_ALGORITHM_ONE_SHOT);
    EXPECT_EQ(planned(group, 102401), SYMM_ALGORITHM_TWO_SHOT_STAGED);
    group.barrier();
  });

  setenv("SYMM_HOST_TUNE", "one_shot=16", 1);
  as_threads(2, [](int, const Group& group) {
    EXPECT_EQ(planned(group, 8), SYMM_ALGORITHM_LL);
    EXPECT_EQ(planned(group, 17), SYMM_ALGORITHM_TWO_SHOT_STAGED);
    group.barrier();
  });
}

TEST_F(PlanFile, ResultsAreRightWhateverItSays) {
  write("[host 2]\nll = 0\none_shot = 200K\nstep = 64\n");
  as_threads(2, [](int rank, const Group& group) {
    // A step is 64 bytes, and ranks wait for each other in each step: larger counts would be too
    // slow for a sanitizer on a busy machine.
    for (const size_t count : {1UL, 14UL, 1000UL, 50'000UL, 80'000UL}) {
      std::vector<float> data(count);
      std::vector<float> right(count);
      for (size_t i = 0; i < count; ++i) {
        data[i] = static_cast<float>(i % 1000) + static_cast<float>(rank);
      }
      for (size_t i = 0; i < count; ++i) {
        right[i] = static_cast<float>(2 * (i % 1000) + 1);
      }
      group.allreduce(data, data, SYMM_OP_SUM);
      EXPECT_TRUE(data == right) << count;
    }
  });
}

TEST_F(PlanFile, IsReadWhenTheGroupIsMade) {
  write("[host]\none_shot = 5000\n");
  as_threads(2, [this](int rank, const Group& group) {
    group.barrier();
    if (rank == 0) std::ofstream(path_) << "[nonsense]\n";
    group.barrier();
    const Group part = group.split(0);  // has the whole's
    EXPECT_EQ(planned(part, 5000), SYMM_ALGORITHM_ONE_SHOT);
    part.barrier();
  });
}

TEST_F(PlanFile, ABadOneIsAnErrorOfEveryRank) {
  write("[host 2]\none_shot = 1000\nquick = 1\n");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);

  const struct {
    const char* variable;
    std::string value;
    symm_status_t status;
    std::string said;
  } rows[] = {{"SYMM_PLAN_FILE", folder_ / "none", SYMM_ERR_SYSTEM,
                  "(errno 2): SYMM_PLAN_FILE " + folder_ / "none"},
      {"SYMM_PLAN_FILE", path_, SYMM_ERR_INVALID_ARGUMENT,
          "SYMM_PLAN_FILE " + path_ + ":3: 'quick' is not a key of host"},
      {"SYMM_PLAN_FILE", folder_.path(), SYMM_ERR_INVALID_ARGUMENT, "is not an ordinary file"},
      {"SYMM_PLAN_FILE", folder_ / "pipe", SYMM_ERR_INVALID_ARGUMENT, "is not an ordinary file"},
      {"SYMM_HOST_TUNE", "one_shot=lots", SYMM_ERR_INVALID_ARGUMENT,
          "SYMM_HOST_TUNE: one_shot: 'lots' is not a number"}};

  for (const auto& row : rows) {
    setenv(row.variable, row.value.c_str(), 1);
    const Bootstrap meeting;
    as_threads(2, [&](int rank) {
      expect_failure(row.status, {row.said}, [&] { create(meeting.threads(), rank, 2); });
    });
    unsetenv(row.variable);
  }
}
}  // namespace
}  // namespace support
