// Groups of ranks on a machine that is a hybrid cube mesh, on the fake driver: what is chosen, and where the kernel is told that
// the ranks stand.
#include "core/backend/topology.hpp"
#include "tests/cuda/group.hpp"

namespace symm {
namespace {
// Before the driver and NVML are asked; and scratch of a size that a test can do without.
const bool prepared = setenv("FAKE_NVML_MACHINE", "dgx1v", 1) == 0 &&
                      setenv("SYMM_CUDA_TUNE", "chunk=65536,one_shot=8192,ll=4096,tile=1024,stripes=2", 1) == 0;
constexpr size_t kLimit = 4096;

struct Seen {
  std::vector<fake_cuda::Launch> launches;  // of hybrid cube mesh kernels
  std::vector<std::string> reasons;         // of the plan, by rank
  std::vector<Algorithm> algorithms;
  std::string refusal;
};

// All ranks reduce `bytes`; rank r works on devices[r].
Seen reduce(const std::vector<int>& devices, size_t bytes, Algorithm algorithm, Collective collective = Collective::allreduce) {
  const std::string name = unique();
  const int size = static_cast<int>(devices.size());
  fake_cuda::set_devices(8);
  fake_cuda::launches();
  Seen seen;
  seen.reasons.resize(devices.size());
  seen.algorithms.resize(devices.size());
  std::mutex mutex;
  support::as_threads(size, [&](int rank) {
    GroupConfig config = config_of(rank, size, name, devices[static_cast<size_t>(rank)]);
    config.overlapping_devices = true;
    const Failure failure = support::failure_of([&] {
      const auto group = Group::create(config);
      const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1 << 20), 0);
      CollectiveCall call = call_of(collective, memory->pointer(rank), bytes, DType::u8);
      call.algorithm = algorithm;
      call.timeout_ms = 20'000;
      const PlanReport report = group->transport().plan(call);
      seen.reasons[static_cast<size_t>(rank)] = report.reason;
      seen.algorithms[static_cast<size_t>(rank)] = report.algorithm;
      run_collective(*group, call);
    });
    const std::lock_guard lock(mutex);
    if (failure.status != Status::ok) seen.refusal = failure.message;
  });
  for (const auto& launch : fake_cuda::launches())
    if (launch.kernel == "symm_hybrid_cube_mesh") seen.launches.push_back(launch);
  return seen;
}

void expect_cube(const Seen& seen, uint32_t quad, uint32_t partners, const char* words) {
  EXPECT_EQ(seen.refusal, "");
  EXPECT_EQ(seen.launches.size(), 8U);
  for (const auto& launch : seen.launches) {
    EXPECT_EQ(launch.quad, quad);
    EXPECT_EQ(launch.partners, partners);
  }
  for (const std::string& reason : seen.reasons) EXPECT_NE(reason.find(words), std::string::npos) << reason;
  for (const Algorithm algorithm : seen.algorithms) EXPECT_EQ(algorithm, Algorithm::hybrid_cube_mesh);
}

TEST(CubeMeshGroup, IsChosenWhereTheDevicesAreOne) {
  ASSERT_TRUE(prepared);
  for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::hybrid_cube_mesh}) {
    expect_cube(reduce({0, 1, 2, 3, 4, 5, 6, 7}, kLimit, algorithm), 0x0F, 0x32107654, "the hybrid cube mesh");
    expect_cube(reduce({7, 0, 5, 2, 4, 1, 6, 3}, 1, algorithm), 0x55, 0x03216547, "the hybrid cube mesh");
  }
}

TEST(CubeMeshGroup, OnlyUpToItsLimitAndForAllReduce) {
  const std::vector<int> all = {0, 1, 2, 3, 4, 5, 6, 7};
  Seen seen = reduce(all, kLimit + 1, Algorithm::automatic);
  EXPECT_EQ(seen.refusal, "");
  EXPECT_TRUE(seen.launches.empty());
  seen = reduce(all, kLimit + 1, Algorithm::hybrid_cube_mesh);
  EXPECT_NE(seen.refusal.find("at most 4096 bytes"), std::string::npos) << seen.refusal;
  seen = reduce(all, 64, Algorithm::automatic, Collective::reduce);
  EXPECT_EQ(seen.refusal, "");
  EXPECT_TRUE(seen.launches.empty());
}

TEST(CubeMeshGroup, IsForcedOnAnyEightRanks) {
  const std::vector<int> twice = {0, 1, 2, 3, 0, 1, 2, 3};
  Seen seen = reduce(twice, 64, Algorithm::automatic);
  EXPECT_EQ(seen.refusal, "");
  EXPECT_TRUE(seen.launches.empty()) << "two ranks on a device";
  expect_cube(reduce(twice, 64, Algorithm::hybrid_cube_mesh), 0x0F, 0x32107654, "the topology does not show");
}

TEST(CubeMeshGroup, IsNothingForOtherNumbersOfRanks) {
  for (const std::vector<int>& devices : {std::vector{0, 1, 2, 3}, std::vector{0, 1, 2, 3, 4, 5, 6}}) {
    Seen seen = reduce(devices, 64, Algorithm::automatic);
    EXPECT_EQ(seen.refusal, "");
    EXPECT_TRUE(seen.launches.empty());
    seen = reduce(devices, 64, Algorithm::hybrid_cube_mesh);
    EXPECT_NE(seen.refusal.find("needs 8 ranks"), std::string::npos) << seen.refusal;
  }
}
}  // namespace
}  // namespace symm
