// Groups on a machine that NVML says is a DGX-1, on the fake driver: what ranks conclude from the
// links of their devices, what is chosen, and the roles that the kernel is told.
#include "core/cuda/cube_mesh.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "core/backend/topology.hpp"
#include "core/cuda/nvml.hpp"
#include "kernels/collective_call.hpp"
#include "tests/cuda/group.hpp"
#include "tests/fake_cuda/machines.hpp"

namespace symm {
namespace {
// Set before anything asks NVML.
const bool is_mesh = setenv("FAKE_NVML_MACHINE", "dgx1v", 1) == 0;

// What group.hpp sets as the limit of LL.
constexpr size_t kLimit = 1024;

const std::vector<int> kAll = {0, 1, 2, 3, 4, 5, 6, 7};
// Devices of one quad have every other rank, and partners are at odds with their numbers.
const std::vector<int> kShuffled = {7, 0, 5, 2, 4, 1, 6, 3};
constexpr CubeMesh kRolesShuffled{0b01010101, 0x03216547};

// ---- the links that ranks tell each other

// What ranks on these devices of a machine tell.
std::vector<cuda::LinkFacts> told(const std::string& name, const std::vector<int>& devices) {
  const fake_machine::Machine& machine = *fake_machine::find(name);
  std::vector<cuda::LinkFacts> all;

  for (const int device : devices) {
    cuda::LinkFacts& facts = all.emplace_back();
    facts.bus = cuda::bus_number(fake_machine::bus_of(device));
    facts.to_switches = machine.switch_links;
    for (int peer = 0; peer < machine.gpus && !machine.links.empty(); ++peer) {
      const int count = machine.links[static_cast<size_t>(device)][static_cast<size_t>(peer)];
      for (int i = 0; i < count; ++i) {
        facts.to_gpus.at(static_cast<size_t>(facts.direct++)) =
            cuda::bus_number(fake_machine::bus_of(peer));
      }
    }
  }

  return all;
}

TEST(BusNumber, IsThatOfTheDeviceHoweverItIsWritten) {
  EXPECT_EQ(cuda::bus_number("0000:1b:00.0"), 0x1B0000U);
  EXPECT_EQ(cuda::bus_number("00000000:1B:00.0"), 0x1B0000U);
  EXPECT_EQ(cuda::bus_number("10000:ff:1f.7"), 0x10000FF1F07U);
  for (const char* text : {"", "x", "0000", "0000:1b", "0000:1b:00", "0000:1b:00.", "0000:1b:00:0",
           "0000:1bb:00.0", "0000:1b:00.0 ", "0000:1b:00.0:0", "-1:1b:00.0", ":::."}) {
    EXPECT_EQ(cuda::bus_number(text), 0U) << text;
  }
}

TEST(CubeMeshOfRanks, HasTheRolesOfTheirDevices) {
  EXPECT_EQ(cuda::cube_mesh_of(told("dgx1v", kAll)), CubeMesh{});
  EXPECT_EQ(cuda::cube_mesh_of(told("dgx1v", kShuffled)), kRolesShuffled);
}

TEST(CubeMeshOfRanks, IsNoneOfOtherMachinesAndNumbers) {
  EXPECT_FALSE(cuda::cube_mesh_of(told("hgx_h100", kAll)));
  EXPECT_FALSE(cuda::cube_mesh_of(told("dgx2", kAll)));
  EXPECT_FALSE(cuda::cube_mesh_of(told("pcie", {0, 1, 2, 3})));
  EXPECT_FALSE(cuda::cube_mesh_of(told("dgx1v", {0, 1, 2, 3})));
  EXPECT_FALSE(cuda::cube_mesh_of({}));
}

TEST(CubeMeshOfRanks, IsNoneIfTwoRanksShareADevice) {
  EXPECT_FALSE(cuda::cube_mesh_of(told("dgx1v", {0, 1, 2, 3, 4, 5, 6, 6})));
  EXPECT_FALSE(cuda::cube_mesh_of(told("dgx1v", {0, 1, 2, 3, 0, 1, 2, 3})));
}

TEST(CubeMeshOfRanks, IsNoneIfOneRankKnowsNothingOrLacksALink) {
  for (size_t rank = 0; rank < 8; ++rank) {
    std::vector<cuda::LinkFacts> ranks = told("dgx1v", kAll);
    const cuda::LinkFacts known = ranks[rank];
    ranks[rank] = {};
    EXPECT_FALSE(cuda::cube_mesh_of(ranks)) << rank;

    ranks[rank] = known;
    ranks[rank].direct = 0;
    EXPECT_FALSE(cuda::cube_mesh_of(ranks)) << rank;
  }
}

// A peer is believed nothing beyond the bounds of what it tells.
TEST(CubeMeshOfRanks, IsNoneIfOneRankTellsNonsense) {
  std::vector<cuda::LinkFacts> ranks = told("dgx1v", kAll);
  for (const int32_t direct : {1'000'000, -1}) {
    ranks[5].direct = direct;
    ranks[5].to_gpus.fill(UINT64_MAX);
    EXPECT_FALSE(cuda::cube_mesh_of(ranks)) << direct;
  }
}

// ---- groups

struct Seen {
  // Launches of the kernel of the hybrid cube mesh.
  std::vector<fake_cuda::Launch> launches;
  // By rank.
  std::vector<PlanReport> plans;
  std::string refusal;
};

// A call of all ranks, rank r on devices[r].
Seen call(const std::vector<int>& devices, size_t bytes, Algorithm algorithm,
    Collective collective = Collective::allreduce) {
  const auto size = static_cast<int>(devices.size());
  const std::string name = unique();
  fake_cuda::settings().devices.count = 8;
  fake_cuda::launches();
  Seen seen;
  seen.plans.resize(devices.size());
  std::mutex mutex;

  support::as_threads(size, [&](int rank) {
    const auto me = static_cast<size_t>(rank);
    GroupConfig config = config_of(rank, size, name, devices[me]);
    config.overlapping_devices = true;
    const Failure failure = support::failure_of([&] {
      const auto group = Group::create(config);
      const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1 << 20), 0);
      CollectiveCall made = call_of(collective, memory->pointer(rank), bytes, DType::u8);
      made.algorithm = algorithm;
      made.timeout_ms = 20'000;
      seen.plans[me] = group->transport().plan(made);
      run_collective(*group, made);
    });
    const std::lock_guard lock(mutex);
    if (failure.status != Status::ok) seen.refusal = failure.message;
  });

  for (const fake_cuda::Launch& launch : fake_cuda::launches()) {
    // A launch that makes the kernel ready is told no roles.
    if (launch.kernel == "symm_hybrid_cube_mesh" && launch.quad != 0) {
      seen.launches.push_back(launch);
    }
  }
  return seen;
}

void expect_by_mesh(const Seen& seen, const CubeMesh& roles, const std::string& words) {
  EXPECT_EQ(seen.refusal, "");
  EXPECT_EQ(seen.launches.size(), 8U);
  for (const fake_cuda::Launch& launch : seen.launches) {
    EXPECT_EQ(launch.quad, roles.quad);
    EXPECT_EQ(launch.partners, roles.partners);
  }
  for (const PlanReport& plan : seen.plans) {
    EXPECT_EQ(plan.algorithm, Algorithm::hybrid_cube_mesh);
    EXPECT_NE(plan.reason.find(words), std::string::npos) << plan.reason;
  }
}

void expect_otherwise(const Seen& seen) {
  EXPECT_EQ(seen.refusal, "");
  EXPECT_TRUE(seen.launches.empty());
  for (const PlanReport& plan : seen.plans) {
    EXPECT_NE(plan.algorithm, Algorithm::hybrid_cube_mesh);
  }
}

struct CubeMeshGroup : OnFakeDriver {};

TEST_F(CubeMeshGroup, GoesAlongTheLinksWhereTheDevicesAreAMesh) {
  ASSERT_TRUE(is_mesh);
  for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::hybrid_cube_mesh}) {
    expect_by_mesh(call(kAll, kLimit, algorithm), CubeMesh{}, "the hybrid cube mesh");
    expect_by_mesh(call(kShuffled, 1, algorithm), kRolesShuffled, "the hybrid cube mesh");
  }
}

TEST_F(CubeMeshGroup, GoesOtherwiseAboveTheLimitAndForOtherCollectives) {
  expect_otherwise(call(kAll, kLimit + 1, Algorithm::automatic));
  expect_otherwise(call(kAll, 64, Algorithm::automatic, Collective::reduce));
  const auto refused = [](size_t bytes, Collective collective) {
    return call(kAll, bytes, Algorithm::hybrid_cube_mesh, collective).refusal;
  };
  EXPECT_NE(
      refused(kLimit + 1, Collective::allreduce).find("at most 1024 bytes"), std::string::npos);
  EXPECT_NE(refused(64, Collective::reduce).find("does allreduce, not reduce"), std::string::npos);
}

TEST_F(CubeMeshGroup, IsForcedOnAnyEightRanks) {
  const std::vector<int> shared = {0, 1, 2, 3, 0, 1, 2, 3};
  expect_otherwise(call(shared, 64, Algorithm::automatic));
  expect_by_mesh(
      call(shared, 64, Algorithm::hybrid_cube_mesh), CubeMesh{}, "as if the devices had them");
}

// As for GPUs of two sockets without a link, where the driver does not go over PCIe.
TEST_F(CubeMeshGroup, IsNotMadeWhereGpusCannotAccessEachOther) {
  fake_cuda::settings().are_apart = true;
  const std::string refusal = call(kAll, 64, Algorithm::automatic).refusal;
  fake_cuda::settings().are_apart = false;
  for (const char* words : {"cuMemSetAccess", "whose GPU this one may not be able to access"}) {
    EXPECT_NE(refusal.find(words), std::string::npos) << refusal;
  }
}

TEST_F(CubeMeshGroup, IsRefusedOfOtherNumbersOfRanks) {
  for (const std::vector<int>& devices :
      {std::vector{0, 1, 2, 3}, std::vector{0, 1, 2, 3, 4, 5, 6}}) {
    expect_otherwise(call(devices, 64, Algorithm::automatic));
    const std::string refusal = call(devices, 64, Algorithm::hybrid_cube_mesh).refusal;
    EXPECT_NE(
        refusal.find("needs 8 ranks, not " + std::to_string(devices.size())), std::string::npos)
        << refusal;
  }
}
}  // namespace
}  // namespace symm
