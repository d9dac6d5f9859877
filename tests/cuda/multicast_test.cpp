// Multicast on the fake driver, with a process for each rank. It is off unless asked
// for, its calls come in the right order, and where it is unavailable all ranks know
// the same reason. control_path_test.cpp tests multicast calls that fail.
#include <stdlib.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/cuda/driver.hpp"
#include "core/group/collective.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/types.hpp"
#include "tests/cuda/group.hpp"
#include "tests/cuda/processes.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

namespace symm {
namespace {
// No variable of the environment forbids multicast here. multicast_choice_test.cpp tests these
// variables.
const bool nothing_forbids = [] {
  for (const char* name : {"SYMM_MULTICAST", "NCCL_NVLS_ENABLE", "NVSHMEM_DISABLE_NVLS",
           "TORCH_SYMM_MEM_DISABLE_MULTICAST"}) {
    unsetenv(name);
  }
  return true;
}();

const Setting kAsks{.change = [](GroupConfig& config) { config.multicast = true; }};

CollectiveCall sum_of(const Memory& memory, int rank, Algorithm algorithm, size_t count = 1000) {
  CollectiveCall call = call_of(Collective::allreduce, memory.pointer(rank), count, DType::bf16);
  if (algorithm == Algorithm::multimem_one_shot) call.recv = memory.pointer(rank) + 65536;
  call.algorithm = algorithm;
  return call;
}

std::string why_none(const std::shared_ptr<Group>& group) {
  return group->transport().device().why_no_multicast();
}

TEST(CudaMulticast, IsMadeWhereAllAskForIt) {
  const Body body = [](const std::shared_ptr<Group>& group) {
    const auto bindings = [] { return fake_cuda::live()["binding"]; };
    const auto buffer = Buffer::allocate(*group, 100'000);
    const auto memory = Memory::rendezvous(group, buffer, 0);
    EXPECT_NE(memory->multicast(), nullptr);
    EXPECT_EQ(memory->view().why_no_multicast, "");
    for (int rank = 0; rank < group->size(); ++rank) {
      EXPECT_NE(memory->multicast(), memory->pointer(rank));
    }
    EXPECT_EQ(bindings(), 1);

    // Another memory of the same group, and a memory
    // of a part of the group, while the first lives.
    const auto second = Memory::rendezvous(group, Buffer::allocate(*group, 5'000'000), 7);
    EXPECT_NE(second->multicast(), memory->multicast());
    if (const auto part = group->split(group->rank() == 0 ? -1 : 0, 0)) {
      const auto third = Memory::rendezvous(part, buffer, 0);
      EXPECT_NE(third->multicast(), nullptr);
      EXPECT_EQ(bindings(), 3);
    }
    EXPECT_EQ(bindings(), 2);

    fake_cuda::launches();
    for (const Algorithm algorithm : {Algorithm::multimem_one_shot, Algorithm::multimem_two_shot}) {
      const CollectiveCall call = sum_of(*memory, group->rank(), algorithm);
      const PlanReport report = plan_collective(*group, call);
      EXPECT_EQ(report.algorithm, algorithm);
      EXPECT_EQ(report.slices, algorithm == Algorithm::multimem_two_shot ? group->size() : 1);
      run_collective(*group, call);
    }
    const auto launched = fake_cuda::launches();
    EXPECT_EQ(launched.size(), 2U);
    EXPECT_EQ(launched.at(0).kernel, "symm_multimem_one_shot_bf16");
    EXPECT_EQ(launched.at(1).kernel, "symm_multimem_two_shot_bf16");
    EXPECT_TRUE(launched[0].blocks == 1 && launched[0].threads == 512);
    // These algorithms are chosen only by name.
    EXPECT_EQ(
        plan_collective(*group, sum_of(*memory, group->rank(), Algorithm::automatic)).algorithm,
        Algorithm::one_shot);
    return why_none(group);
  };
  expect_well(on_machines("aaa", body, kAsks));
  expect_well(
      on_machines("aa", why_none, {.before = [](int) { setenv("SYMM_MULTICAST", "1", 1); }}));
}

TEST(CudaMulticast, OperandsMustBeReachable) {
  const Body body = [](const std::shared_ptr<Group>& group) {
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1 << 20), 0);
    std::byte* const mine = memory->pointer(group->rank());
    const auto refused = [&](const std::string& why,
                             const std::function<void(CollectiveCall&)>& change) {
      CollectiveCall call = sum_of(*memory, group->rank(), Algorithm::multimem_two_shot);
      change(call);
      const Failure ran = support::expect_failure(
          Status::invalid_argument, {why}, [&] { run_collective(*group, call); });
      EXPECT_EQ(support::failure_of([&] { plan_collective(*group, call); }).message, ran.message);
    };

    std::vector<std::byte> own(4000);
    refused("send is not in this rank's block", [&](auto& call) { call.send = own.data(); });
    refused("recv is not in this rank's block", [&](auto& call) { call.recv = own.data(); });
    refused("send is not in this rank's block",
        [&](auto& call) { call.send = memory->pointer(1 - group->rank()); });
    refused("send lies at byte 4098", [&](auto& call) { call.send = mine + 4098; });
    refused("recv lies at byte 4008", [&](auto& call) { call.recv = mine + 4008; });
    refused("not avg of bf16 by allreduce", [](auto& call) { call.op = Op::avg; });
    refused("not sum of f64", [](auto& call) { call.dtype = DType::f64; });
    refused("by reduce", [](auto& call) { call.collective = Collective::reduce; });
    refused("not in place", [](auto& call) { call.algorithm = Algorithm::multimem_one_shot; });

    CollectiveCall nothing = sum_of(*memory, group->rank(), Algorithm::multimem_two_shot, 0);
    nothing.send = nullptr;
    nothing.recv = nullptr;
    run_collective(*group, nothing);
  };

  expect_well(on_machines("aa", body, kAsks));
}

TEST(CudaMulticast, ByDefaultAndWhereItIsForbiddenNoCallIsMade) {
  const Body body = [](const std::shared_ptr<Group>& group) {
    const std::string reason = why_none(group);
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1 << 20), 0);
    EXPECT_EQ(memory->view().multicast, nullptr);
    EXPECT_EQ(memory->view().why_no_multicast, reason);

    support::expect_failure(
        Status::unavailable, {reason}, [&] { static_cast<void>(memory->multicast()); });
    const CollectiveCall forced = sum_of(*memory, group->rank(), Algorithm::multimem_two_shot);
    support::expect_failure(
        Status::invalid_argument, {reason}, [&] { run_collective(*group, forced); });
    run_collective(*group, sum_of(*memory, group->rank(), Algorithm::automatic));
    memory->fill(1 - group->rank(), 0, {7, 4, 1}, nullptr);

    EXPECT_EQ(fake_cuda::multicast_calls(), 0);
    return reason;
  };

  const auto expect = [&](const std::string& reason, const std::function<void(int rank)>& before) {
    expect_all(on_machines("aa", body, {.before = before, .change = kAsks.change}), {reason});
  };

  expect_all(
      on_machines("aa", body), {"nobody asked for it (SYMM_GROUP_MULTICAST or SYMM_MULTICAST=1)"});
  expect("rank 1: NCCL_NVLS_ENABLE=0 is set", [](int rank) {
    if (rank == 1) setenv("NCCL_NVLS_ENABLE", "0", 1);
  });
  expect("rank 1: the device has none (CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED)", [](int rank) {
    fake_cuda::settings().attributes[cuda::CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED] =
        rank != 1 ? 1 : 0;
  });

  expect("rank 0: the CUDA driver has no multicast; that came with CUDA 12.1", [](int rank) {
    if (rank == 0) fake_cuda::settings().hidden = {"cuMulticastBindMem"};
  });

  const auto share_a_device = [](GroupConfig& config) {
    config.multicast = true;
    config.overlapping_devices = true;
    config.device = 1;
  };

  expect_all(
      on_machines("aa", body, {.change = share_a_device}), {"ranks 0 and 1 share device GPU-"});
  expect_all(on_machines("a", why_none, kAsks), {"the group has one rank"});
}

TEST(CudaMulticast, DifferentMasksOfVisibleDevices) {
  const Body body = [](const std::shared_ptr<Group>& group) {
    return Memory::rendezvous(group, Buffer::allocate(*group, 1 << 20), 0)->view().why_no_multicast;
  };
  const auto first_seen = [](GroupConfig& config) {
    config.multicast = true;
    config.device = 0;
  };
  expect_well(on_machines("aaa", body,
      {.before = [](int rank) { fake_cuda::settings().devices = {1, rank}; },
          .change = first_seen}));
}

// A block that a group without multicast has allocated is only as large as it must be,
// and does not fit the granularity of multicast.
TEST(CudaMulticast, ABlockThatDoesNotFit) {
  const Body body = [](const std::shared_ptr<Group>& group) {
    const auto alone = Group::create(config_of(0, 1, unique(), group->rank()));
    // Rank 1 maps 2 MiB, and the other rank 4 MiB.
    const auto small = Buffer::allocate(group->rank() == 1 ? *alone : *group, 100);
    const auto memory = Memory::rendezvous(group, small, 0);
    *reinterpret_cast<int*>(memory->pointer(group->rank())) = 7;
    group->barrier({}, 0, 0, nullptr);
    EXPECT_NE(Memory::rendezvous(group, Buffer::allocate(*group, 100), 0)->multicast(), nullptr);
    return memory->view().why_no_multicast;
  };

  expect_all(on_machines("aa", body, kAsks),
      {"rank 1: its block of 2097152 bytes is not a multiple of 4194304"});
}
}  // namespace
}  // namespace symm
