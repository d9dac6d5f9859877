// A rendezvous that cannot succeed on one rank fails alike on all, costs nothing, and leaves the group as useful as before.
#include "tests/ranks/failure.hpp"
#include "tests/support/sanitizers.hpp"

namespace support { namespace {
constexpr int kRanks = 3;
constexpr size_t kBytes = 1 << 20;

uint64_t address_space() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

// Rank 1 makes its rendezvous at step `step` after lower(limit, step). Every step fails alike everywhere, with one of `allowed`,
// until one succeeds.
void expect_equal_failures(decltype(RLIMIT_NOFILE) resource, const std::function<void(const Limit& limit, int step)>& lower,
    symm_status_t expected, int most) {
  as_processes(kRanks, [&](int rank, const Group& group) {
    {
      const Buffer buffer = group.allocate(kBytes);
      const Memory warm = group.rendezvous(buffer);
      group.barrier();
    }
    expect_sum(group);
    bool succeeded = false;
    int failures = 0;
    for (int step = 0; step < most && !succeeded; ++step) {
      group.barrier();
      const Footprint before = Footprint::settled();
      {
        const Buffer buffer = group.allocate(kBytes);  // another: what was rendezvoused is remembered
        std::optional<Limit> limit(resource);
        if (rank == 1) lower(*limit, step);
        symm_memory_t* made = nullptr;  // an exception might need what the limit denies
        const symm_status_t status = symm_rendezvous(group.get(), buffer.get(), nullptr, &made);
        limit.reset();
        const Memory memory(made);
        const std::string message = status == SYMM_OK ? "" : symm_last_error();
        std::vector<int32_t> of_all(kRanks);
        group.allgather(symm::Span(&status, 1), of_all);
        EXPECT_EQ(of_all, std::vector<int32_t>(kRanks, status)) << "in step " << step;
        succeeded = status == SYMM_OK;
        failures += !succeeded;
        if (!succeeded) {
          EXPECT_EQ(status, expected) << message;
          EXPECT_NE(message.find("rank 1"), std::string::npos) << message;
          EXPECT_EQ(last_failure().rank, 1) << message;
        }
      }
      group.barrier();
      SCOPED_TRACE("after step " + std::to_string(step));
      expect_footprint(before);
      EXPECT_EQ(group.status().status, SYMM_OK);
      expect_sum(group);
    }
    EXPECT_TRUE(succeeded) << "no limit was high enough";
    EXPECT_GT(failures, 0) << "no limit was low enough";
    const Buffer buffer = group.allocate(kBytes);
    const Memory last = group.rendezvous(buffer);
    expect_sum(group);
  });
}

TEST(Rendezvous, OneRankRunsOutOfDescriptors) {
  SYMM_NOT_UNDER_ASAN(
      "UndefinedBehaviorSanitizer opens a pipe to look at an object's type, and takes a failure for a bad object");
  expect_equal_failures(
      RLIMIT_NOFILE, [](const Limit&, int step) { leave_descriptors(step); }, SYMM_ERR_SYSTEM, 16);
}

TEST(Rendezvous, OneRankMayNotMakeFilesOfThisSize) {
  expect_equal_failures(
      RLIMIT_FSIZE, [](const Limit& limit, int step) { limit.lower(step == 0 ? 0 : size_t{1} << 30); }, SYMM_ERR_OUT_OF_MEMORY,
      2);
}

TEST(Rendezvous, OneRankRunsOutOfAddressSpace) {
  SYMM_NOT_UNDER_ASAN("AddressSanitizer needs the address space");
  expect_equal_failures(
      RLIMIT_AS, [](const Limit& limit, int step) { limit.lower(address_space() + static_cast<uint64_t>(step) * kBytes / 2); },
      SYMM_ERR_OUT_OF_MEMORY, 300);
}

// Threads of a rank may meet at once with tags of their own, in any order, but ranks that wait past each other are told.
TEST(Rendezvous, TagsDiffer) {
  as_threads(3, [](int rank, const Group& group) {
    const auto meet = [&](uint64_t tag) { return outcome_of([&] { group.rendezvous(group.allocate(64), tag); }); };
    std::thread other([&] { EXPECT_EQ(meet(rank == 0 ? 1 : 2).message, ""); });
    if (rank == 0) usleep(700'000);
    EXPECT_EQ(meet(rank == 0 ? 2 : 1).message, "");
    other.join();
    const Outcome outcome = meet(rank == 1 ? 8 : 7);
    EXPECT_EQ(outcome.status, SYMM_ERR_MISMATCH) << outcome.message;
    EXPECT_TRUE(outcome.message.find("rank 0 waits with 7, rank 1 with 8") != std::string::npos ||
                outcome.message.find("rank 1 waits with 8, rank 2 with 7") != std::string::npos)
        << outcome.message;
    EXPECT_EQ(group.status().status, SYMM_ERR_MISMATCH);
  });
}
}}  // namespace support
