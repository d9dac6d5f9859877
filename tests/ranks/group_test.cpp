#include "tests/support/group.hpp"
#include "tests/support/options.hpp"

namespace support { namespace {
TEST(Group, IsOnOneMachineHere) {
  as_processes(2, [](int rank, const Group& group) {
    const symm_group_info_t info = group.info();
    EXPECT_EQ(info.machines, 1);
    EXPECT_EQ(info.machine, 0);
    EXPECT_EQ(info.local_rank, rank);
    EXPECT_EQ(info.local_size, 2);
    EXPECT_STREQ(info.engine, "");
    EXPECT_EQ(group.peer_info(1 - rank).machine_index, 0);
    EXPECT_EQ(group.peer_info(1 - rank).mapped, 1);
    group.barrier();
  });
}

// What the configuration says goes for the groups made of this one, too.
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
      EXPECT_EQ(symm_barrier(of->get(), nullptr, 0, 256, nullptr, nullptr), SYMM_ERR_INVALID_ARGUMENT);
      // Through scratch of each size.
      for (const size_t count : {size_t{1}, size_t{3000}, size_t{300'000}}) {
        std::vector<float> values(count, static_cast<float>(rank + 1));
        of->allreduce(values, values, SYMM_OP_SUM);
        EXPECT_EQ(std::count(values.begin(), values.end(), 3.0F), std::ptrdiff_t(count));
      }
    }
    EXPECT_EQ(part.info().max_channels, 256);
    EXPECT_EQ(part.info().max_name, 63);
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
      EXPECT_EQ(expect_failure(SYMM_ERR_MISMATCH, {row.said}, [&] { create(config, rank, 2); }).rank, 1);
    });
  }
}
}}  // namespace support
