// Kernels that may begin while the kernel before them on the
// stream ends, on the fake driver. These are small kernels, where
// device and driver allow it and no two ranks share a device.
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "core/cuda/driver.hpp"
#include "core/group/collective.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "kernels/types.hpp"
#include "tests/cuda/group.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

namespace symm::cuda {
namespace {
using Launches = std::vector<fake_cuda::Launch>;

constexpr size_t kSmall = 1000;
constexpr size_t kLarge = 1'000'000;

// The launches of a group with a rank on each of `devices`. Each
// rank makes a barrier and reduces `count` bf16, and there are
// no other launches from the creation of the group to its end.
Launches launches_on(
    const std::vector<int>& devices, size_t count = kSmall, bool overlapping = false) {
  fake_cuda::launches();
  const auto body = [&](int rank, const std::shared_ptr<Group>& group) {
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, kLarge * 2), 0);
    group->barrier({}, 0, 0, nullptr);
    run_collective(
        *group, call_of(Collective::allreduce, memory->pointer(rank), count, DType::bf16));
  };

  as_groups(static_cast<int>(devices.size()), body, [&](GroupConfig& config) {
    config.device = devices[static_cast<size_t>(config.rank)];
    config.overlapping_devices = overlapping;
  });

  const Launches launches = fake_cuda::launches();
  EXPECT_EQ(launches.size(), 2 * devices.size());
  EXPECT_EQ(std::count_if(launches.begin(), launches.end(),
                [](const auto& launch) { return launch.kernel == "symm_barrier"; }),
      static_cast<long>(devices.size()));

  return launches;
}

void expect_early(bool early, const Launches& launches) {
  for (const auto& launch : launches) {
    EXPECT_EQ(launch.early, early) << launch.kernel;
  }
}

class EarlyLaunch : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda::settings().attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 9;
    tune("chunk=64K");
  }

  void TearDown() override {
    fake_cuda::settings().attributes.clear();
    fake_cuda::settings().version = 13000;
    setenv("SYMM_CUDA_TUNE", before_.c_str(), 1);
  }

  // The scratch is small, so that tests need little memory.
  static void tune(const std::string& more) {
    setenv("SYMM_CUDA_TUNE", ("one_shot=4096,ll=1024,tile=1024,work_groups=2," + more).c_str(), 1);
  }

 private:
  const std::string before_ = std::getenv("SYMM_CUDA_TUNE");  // small_scratch
};

TEST_F(EarlyLaunch, OnlyUpToTheThreadsOfThePlanTable) {
  const auto is_collective = [](const auto& launch) { return launch.kernel != "symm_barrier"; };
  const Launches seen = launches_on({0, 1}, kLarge);
  const auto reduction = std::find_if(seen.begin(), seen.end(), is_collective);
  ASSERT_NE(reduction, seen.end());

  const unsigned threads = reduction->blocks * reduction->threads;
  ASSERT_GT(reduction->blocks, 1U);

  for (const unsigned limit : {31U, 32U, reduction->threads, threads - 1, threads}) {
    tune("chunk=64K,early=" + std::to_string(limit));
    for (const auto& launch : launches_on({0, 1}, kLarge)) {
      EXPECT_EQ(launch.early, is_collective(launch) ? limit >= threads : limit >= 32)
          << launch.kernel << " of " << launch.blocks << " blocks, early=" << limit;
    }
  }

  tune("chunk=64K,early=0");
  expect_early(false, launches_on({0, 1}));
}

// A large kernel may come while the one ahead still has its half of the device.
// Together they leave room for the kernels of others.
TEST_F(EarlyLaunch, TwoOfAGroupLeaveRoomOnADevice) {
  constexpr unsigned kMultiprocessors = 132;
  fake_cuda::settings().attributes[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] = kMultiprocessors;
  tune("chunk=2M,early=64K");
  for (const auto& launch : launches_on({0, 1, 2}, kLarge)) {
    EXPECT_TRUE(launch.early) << launch.kernel << " of " << launch.blocks << " blocks";
    // Blocks have 512 threads and take a multiprocessor each at worst.
    EXPECT_LT(2 * launch.blocks, kMultiprocessors) << launch.kernel;
  }
}

TEST_F(EarlyLaunch, NotBeforeComputeCapability9) {
  for (const int major : {7, 8, 9, 10, 12}) {
    fake_cuda::settings().attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = major;
    expect_early(major >= 9, launches_on({0, 1}));
  }
}

TEST_F(EarlyLaunch, NotBeforeDriver12_3) {
  for (const int version : {12000, 12020, 12030}) {
    fake_cuda::settings().version = version;
    expect_early(version >= 12030, launches_on({0, 1}));
  }
}

// A rank with a device of its own launches no kernel early either if other ranks of the
// group share a device. SYMM_GROUP_OVERLAPPING_DEVICES alone does not matter.
TEST_F(EarlyLaunch, NotWhereRanksShareADevice) {
  expect_early(false, launches_on({1, 1}, kSmall, true));
  expect_early(false, launches_on({0, 1, 1}, kSmall, true));
  expect_early(true, launches_on({0, 1, 2}, kSmall, true));
}
}  // namespace
}  // namespace symm::cuda
