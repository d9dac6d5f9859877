// A rendezvous that cannot succeed on one rank fails alike on all, costs nothing, and leaves the group as useful as before.
#include "tests/ranks/failure.hpp"
#include "tests/support/sanitizers.hpp"

namespace support {
namespace {
constexpr int kRanks = 3;
constexpr size_t kBytes = 1 << 20;

// Lowers a limit of this process for a scope.
class Limit {
 public:
  Limit(int resource, uint64_t value) : resource_(resource) {
    getrlimit(static_cast<__rlimit_resource_t>(resource_), &former_);
    const rlimit lower{value, former_.rlim_max};
    setrlimit(static_cast<__rlimit_resource_t>(resource_), &lower);
  }
  ~Limit() { setrlimit(static_cast<__rlimit_resource_t>(resource_), &former_); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;
 private:
  int resource_;
  rlimit former_{};
};

int highest_descriptor() {
  int highest = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    highest = std::max(highest, std::stoi(entry.path().filename()));
  return highest;
}

// Takes all numbers below the highest, so that a limit above it counts what is opened.
void plug_descriptors() {
  const int highest = highest_descriptor();
  int number = 0;
  while (number < highest) number = fcntl(0, F_DUPFD_CLOEXEC, 0);
  close(number);
}

uint64_t address_space() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

struct Outcomes {
  std::atomic<int> status[kRanks];
};

void expect_sum(const Group& group) {
  const float one = 1;
  float sum = 0;
  check(allreduce(group, &one, &sum, 1));
  EXPECT_EQ(sum, group.size());
}

// Rank 1 makes its rendezvous at step `step` under limit(step). Every step fails alike everywhere, with one of `allowed`, until
// one succeeds.
void expect_equal_failures(
    const std::function<std::unique_ptr<Limit>(int step)>& limit, const std::vector<symm_status_t>& allowed, int most) {
  const Shared<Outcomes> outcomes;
  as_processes(kRanks, [&](int rank, const Group& group) {
    {
      const Buffer buffer = group.allocate(kBytes);
      const Memory warm = group.rendezvous(buffer);
      group.barrier();
    }
    expect_sum(group);
    plug_descriptors();
    bool succeeded = false;
    int failures = 0;
    for (int step = 0; step < most && !succeeded; ++step) {
      group.barrier();
      const Footprint before = Footprint::settled();
      {
        const Buffer buffer = group.allocate(kBytes);  // another: what was rendezvoused is remembered
        std::unique_ptr<Limit> lowered = rank == 1 ? limit(step) : nullptr;
        symm_memory_t* made = nullptr;  // an exception might need what the limit denies
        const symm_status_t status = symm_rendezvous(group.get(), buffer.get(), nullptr, &made);
        lowered.reset();
        const Memory memory(made);
        const std::string message = status == SYMM_OK ? "" : symm_last_error();
        outcomes->status[rank] = status;
        group.barrier();
        for (int peer = 0; peer < kRanks; ++peer)
          EXPECT_EQ(outcomes->status[peer], status) << "rank " << peer << " in step " << step;
        succeeded = status == SYMM_OK;
        failures += !succeeded;
        if (!succeeded) {
          EXPECT_NE(std::find(allowed.begin(), allowed.end(), status), allowed.end()) << message;
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
#if defined(SYMM_UNDER_ASAN)
  GTEST_SKIP() << "UndefinedBehaviorSanitizer opens a pipe to look at an object's type, and takes a failure for a bad object";
#endif
  expect_equal_failures(
      [](int step) { return std::make_unique<Limit>(RLIMIT_NOFILE, static_cast<uint64_t>(highest_descriptor() + step)); },
      {SYMM_ERR_SYSTEM}, 16);
}

TEST(Rendezvous, OneRankMayNotMakeFilesOfThisSize) {
  expect_equal_failures([](int step) { return std::make_unique<Limit>(RLIMIT_FSIZE, step == 0 ? 0 : size_t{1} << 30); },
      {SYMM_ERR_OUT_OF_MEMORY}, 2);
}

TEST(Rendezvous, OneRankRunsOutOfAddressSpace) {
#if defined(SYMM_UNDER_ASAN)
  GTEST_SKIP() << "AddressSanitizer needs the address space";
#endif
  expect_equal_failures(
      [](int step) { return std::make_unique<Limit>(RLIMIT_AS, address_space() + static_cast<uint64_t>(step) * kBytes / 2); },
      {SYMM_ERR_OUT_OF_MEMORY}, 300);
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
}  // namespace
}  // namespace support
