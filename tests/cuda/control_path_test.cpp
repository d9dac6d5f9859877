// The control path of the CUDA back end on the fake driver: all
// objects are released, and when any driver call fails on one
// rank, all ranks report the same error and nothing is left.
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/cuda/driver.hpp"
#include "core/group/collective.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/number.hpp"
#include "kernels/pieces.hpp"
#include "kernels/types.hpp"
#include "tests/cuda/group.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

namespace symm {
namespace {
using CudaControlPath = OnFakeDriver;

TEST_F(CudaControlPath, GroupsMemoriesAndCollectivesGiveEverythingBack) {
  fake_cuda::launches();
  as_groups(3, [&](int rank, const auto& group) {
    EXPECT_EQ(group->backend().kind(), BackendKind::cuda);
    EXPECT_EQ(group->backend().device(), rank);  // of four devices
    const auto buffer = Buffer::allocate(*group, 1'000'000);
    const auto memory = Memory::rendezvous(group, buffer, 0);
    *reinterpret_cast<int*>(memory->pointer(rank)) = 100 + rank;
    group->barrier({}, 0, 0, nullptr);
    for (int peer = 0; peer < 3; ++peer) {
      EXPECT_EQ(memory->pointer_table()[peer], memory->pointer(peer));
    }
    run_collective(
        *group, call_of(Collective::allreduce, memory->pointer(rank), 1000, DType::bf16));
  });

  // There are no launches beside these that only make kernels ready.
  std::map<std::string, int> launched;
  for (const auto& launch : fake_cuda::launches()) {
    ++launched[launch.kernel];
  }
  EXPECT_EQ(
      launched, (std::map<std::string, int>{{"symm_barrier", 3}, {"symm_one_shot_bf16_3", 3}}));
}

// Operands are widened, combined, and narrowed again: in recv where the wide operands fit, and
// otherwise in scratch, as much at a time as scratch holds.
TEST_F(CudaControlPath, ScaledCallsAreMadeOfPlainOnes) {
  as_groups(1, [&](int, const auto& group) {
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 32 << 20), 0);
    fake_cuda::launches();
    const auto run = [&](size_t count, DType dtype, const Scaling& scaling, size_t recv_at) {
      CollectiveCall call = call_of(Collective::allreduce, memory->pointer(0), count, dtype);
      call.recv = static_cast<std::byte*>(call.recv) + recv_at;
      call.scaling = scaling;
      const std::string reason = plan_collective(*group, call).reason;
      run_collective(*group, call);
      return std::pair(fake_cuda::launches().size(), reason.substr(0, reason.find(": ")));
    };

    const size_t apart = 16 << 20;
    using Seen = std::pair<size_t, std::string>;
    const Scaling half{DType::bf16, DType::bf16, ScalePosition::before, Factor::value, Number(0.5)};
    EXPECT_EQ(run(3'000'000, DType::bf16, half, 0), Seen(4, "f32, 2097152 elements at a time"));
    EXPECT_EQ(run(3'000'000, DType::bf16, {DType::bf16, DType::f32, {}, {}, Number()}, apart),
        Seen(1, "f32"));
    EXPECT_EQ(run(3'000'000, DType::bf16,
                  {DType::bf16, DType::f32, ScalePosition::after, {}, Number(2.0)}, apart),
        Seen(2, "f32"));
    EXPECT_EQ(run(1000, DType::f64, {DType::f64, DType::f64, ScalePosition::after, {}, Number(2.0)},
                  apart),
        Seen(1, "f64"));
    EXPECT_EQ(run(0, DType::bf16, half, 0), Seen(0, "f32, 2097152 elements at a time"));

    CollectiveCall yes = call_of(Collective::allreduce, memory->pointer(0), 1000, DType::boolean);
    run_collective(*group, yes);

    // The bools of a single rank are made 0 or 1.
    EXPECT_EQ(fake_cuda::launches().size(), 1U);
  });
}

// A launch names the memory into which peers may store. Counts on the device are read
// by the kernel and not by the host.
TEST_F(CudaControlPath, PiecesAreLaunchedWithWhereTheyBelong) {
  as_groups(1, [](int, const auto& group) {
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1 << 20), 0);
    auto* const block = memory->pointer(0);
    std::byte own[4096];
    fake_cuda::launches();
    const size_t four = 4;

    const auto run = [&](Collective collective, const void* send, void* recv,
                         const PieceCounts& counts, size_t count = 0) {
      CollectiveCall call = call_of(collective, recv, count, DType::bf16);
      call.send = send;
      call.timeout_ms = 1000;
      Pieces pieces;
      pieces.counts = counts;
      call.pieces = &pieces;

      EXPECT_NE(plan_collective(*group, call).reason, "");
      run_collective(*group, call);
      const auto launches = fake_cuda::launches();
      EXPECT_EQ(launches.size(), 1U);
      return std::pair(launches.at(0).kernel, launches.at(0).memory != 0);
    };

    using Seen = std::pair<std::string, bool>;
    const Seen moved("symm_pieces_move", true);
    const Seen staged("symm_pieces_move", false);
    const PieceCounts both{&four, nullptr, &four, nullptr};
    // These addresses are invalid on the host, which must not read them.
    PieceCounts on_device{
        reinterpret_cast<size_t*>(8), nullptr, reinterpret_cast<size_t*>(16), nullptr};
    on_device.capacities = Capacities{5, 6};

    EXPECT_EQ(run(Collective::alltoallv, own, block, both), moved);
    EXPECT_EQ(run(Collective::alltoallv, block, own, both), staged);
    EXPECT_EQ(run(Collective::alltoallv, block, block, both), staged) << "in place";
    EXPECT_EQ(run(Collective::alltoallv, own, block, on_device), moved);
    EXPECT_EQ(run(Collective::allgatherv, block, block, {.recv_counts = &four}), moved)
        << "in place";
    EXPECT_EQ(run(Collective::gather, own, block, {}, 7), moved);
    EXPECT_EQ(run(Collective::scatter, own, block, {}, 7), moved);

    const PieceCounts rows{.rows = 3, .row_count = 7, .recv_stride = 9};
    EXPECT_EQ(run(Collective::allgather_rows, own, block, rows, 3 * 7), moved);
    EXPECT_EQ(run(Collective::reduce_scatterv, own, block, {.send_counts = &four}),
        Seen("symm_pieces_reduce_bf16", false));

    const auto& counted = group->transport().stats().shown.collectives;
    EXPECT_EQ(group->transport().stats().shown.call.value() & 0xFF,
        static_cast<size_t>(Collective::reduce_scatterv) + 1);
    EXPECT_EQ(counted[static_cast<size_t>(Collective::alltoallv)].bytes.value(),
        3 * four * size_of(DType::bf16));

    CollectiveCall wrong = call_of(Collective::alltoallv, block, 0, DType::bf16);
    Pieces pieces;
    pieces.counts = on_device;
    wrong.pieces = &pieces;
    const auto why = [&] {
      return support::failure_of([&] { run_collective(*group, wrong); }).message;
    };

    EXPECT_NE(why().find("recv: overlaps send"), std::string::npos) << why();

    wrong.recv = own;
    wrong.algorithm = Algorithm::two_shot;
    EXPECT_NE(why().find("options.algorithm: algorithm two_shot does"), std::string::npos) << why();
  });
}

// A kernel is found by its row of the table, so that one algorithm may have two kernels.
TEST_F(CudaControlPath, OneAlgorithmMayHaveSeveralKernels) {
  as_groups(2, [&](int rank, const auto& group) {
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1 << 20), 0);
    if (rank != 0) return;

    std::byte own[4096];
    for (const auto& [collective, kernel] :
        {std::pair(Collective::allreduce, "symm_pipeline_bf16_2"),
            std::pair(Collective::reduce_scatter, "symm_pipeline_bf16_2"),
            std::pair(Collective::allgather, "symm_pipeline_move"),
            std::pair(Collective::alltoall, "symm_pipeline_move"),
            std::pair(Collective::broadcast, "symm_pipeline_move")}) {
      fake_cuda::launches();
      CollectiveCall call = call_of(collective, memory->pointer(0), 100, DType::bf16);
      call.send = own;
      call.timeout_ms = 1000;
      call.algorithm = Algorithm::two_shot_staged;
      run_collective(*group, call);
      EXPECT_EQ(fake_cuda::launches().at(0).kernel, kernel);
    }
  });
}

// A V100, and kernels by CUDA 13. All ranks are told, and nothing is left.
TEST_F(CudaControlPath, GpusWithoutKernelsAreUnavailable) {
  fake_cuda::Settings& settings = fake_cuda::settings();
  settings.no_binary = true;
  settings.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = 7;
  settings.attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR] = 0;
  const std::string name = unique();
  support::as_threads(2, [&](int rank) {
    support::expect_failure(Status::unavailable,
        {"has compute capability 7.0, and this build of symm has kernels for 8.0 and later",
            "CUDA 12"},
        [&] { Group::create(config_of(rank, 2, name)); });
  });
  settings.no_binary = false;
  settings.attributes.erase(cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  settings.attributes.erase(cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}

TEST_F(CudaControlPath, CopiesInBulkWhereFewBlocksHaveRoom) {
  auto& attributes = fake_cuda::settings().attributes;
  constexpr int kShared = 228 << 10;
  for (const auto& [major, shared, multiprocessors, in_bulk] : {std::tuple(9, kShared, 2, true),
           {9, kShared, 40, false}, {9, 100 << 10, 2, false}, {8, kShared, 2, false}}) {
    attributes[cuda::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR] = shared;
    attributes[cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] = major;
    attributes[cuda::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT] = multiprocessors;
    as_groups(2, [&](int rank, const auto& group) {
      const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1 << 20), 0);
      fake_cuda::launches();
      for (const Collective collective : {Collective::allgather, Collective::reduce_scatter}) {
        const std::byte own[1024]{};
        CollectiveCall call = call_of(collective, memory->pointer(rank), 100, DType::f32);
        call.send = own;
        call.algorithm = Algorithm::two_shot_staged;
        run_collective(*group, call);
      }

      for (const auto& launch : fake_cuda::launches()) {
        EXPECT_EQ(launch.shared,
            in_bulk && launch.kernel == "symm_pipeline_move" ? cuda::kBulkShared : 0U)
            << launch.kernel;
      }
    });
  }

  attributes.clear();
}

TEST_F(CudaControlPath, APartWorksInTheScratchOfTheWhole) {
  const auto launch_of = [](Group& group) {
    std::byte own[2][4096];
    fake_cuda::launches();
    CollectiveCall call = call_of(Collective::alltoall, own[0], 8, DType::f32);
    call.recv = own[1];
    call.algorithm = Algorithm::two_shot_staged;
    run_collective(group, call);
    return fake_cuda::launches().at(0);
  };

  std::barrier<> together(3);
  const auto body = [&](int rank, std::shared_ptr<Group> whole) {
    const int32_t backwards[] = {2, 1, 0};
    auto part = whole->create_from_ranks(backwards);
    const auto pair = part->split(rank == 1 ? -1 : 0, 0);
    const auto bytes = [](const Group& of) {
      return std::pair(of.transport().scratch_bytes(), of.transport().lent_bytes());
    };

    EXPECT_EQ(bytes(*whole), std::pair(bytes(*part).first + bytes(*part).second, uint64_t{0}));
    together.arrive_and_wait();
    if (rank == 0) {
      EXPECT_EQ(bytes(*pair).second, bytes(*part).second);
      const auto all = launch_of(*whole);
      const auto reversed = launch_of(*part);

      for (int r = 0; r < 3; ++r) {
        EXPECT_EQ(reversed.stages[r], all.stages[2 - r]);
      }

      whole.reset();
      part.reset();
      const auto two = launch_of(*pair);
      EXPECT_EQ(std::pair(two.stages[0], two.stages[1]), std::pair(all.stages[2], all.stages[0]));

      pair->fail({Status::aborted, 0, 0, "a test"});
      const auto& words = *reinterpret_cast<const cuda::ControlWords*>(all.stages[0]);
      EXPECT_TRUE(support::eventually([&] { return std::atomic_ref(words.spoilt).load() == 1; }));
    }

    together.arrive_and_wait();
  };

  as_groups(3, body, [](GroupConfig& config) { config.shared_scratch = true; });
}

// A thread that tells of a failure does not wait for
// the driver. It may be the thread that detects deaths.
TEST_F(CudaControlPath, ADriverThatIsHeldUpDelaysNoFailure) {
  std::barrier<> together(2);
  as_groups(2, [&](int rank, const auto& group) {
    together.arrive_and_wait();
    fake_cuda::settings().held = true;
    together.arrive_and_wait();

    std::atomic<bool> told{rank != 0};
    std::thread aborting([&] {
      if (rank == 0) group->fail({Status::aborted, 0, 0, "a test"});
      told = true;
    });

    EXPECT_TRUE(support::eventually([&] { return told && group->revocation().revoked(); }, 5'000));
    together.arrive_and_wait();
    fake_cuda::settings().held = false;
    aborting.join();
  });
}

TEST_F(CudaControlPath, RanksOnOneDeviceNeedTheFlag) {
  for (const bool allowed : {false, true}) {
    const std::string name = unique();
    support::as_threads(2, [&](int rank) {
      GroupConfig config = config_of(rank, 2, name);
      config.device = 1;
      config.overlapping_devices = allowed;
      if (allowed) {
        Group::create(config);
      } else {
        support::expect_failure(Status::invalid_argument, {"SYMM_GROUP_OVERLAPPING_DEVICES"},
            [&] { Group::create(config); });
      }
    });

    EXPECT_EQ(left_in_the_end(), kNothing);
  }
}

// All ranks go on without multicast, for the same reason. If a call for multicast fails
// when the group is formed, the first rendezvous says so, and no memory of that group
// has multicast. If a call fails in a rendezvous, the next rendezvous has multicast.
TEST_F(CudaControlPath, AnyDriverCallMayFailOnOneRank) {
  ASSERT_TRUE(small_scratch);
  const auto attempt = [](bool forms, int rank, const std::string& name, int failing_call) {
    GroupConfig config = config_of(rank, 2, name);
    config.multicast = true;
    std::shared_ptr<Group> group;
    std::shared_ptr<Buffer> buffer;
    const auto form = [&](Outcome& outcome, Status*& step) {
      group = Group::create(config);
      step = &outcome.make;
      buffer = Buffer::allocate(*group, 1 << 20);
    };

    if (!forms) outcome_of(0, form);
    const Outcome ended = outcome_of(failing_call, [&](Outcome& outcome, Status*& step) {
      if (forms) form(outcome, step);
      step = &outcome.rendezvous;
      const auto memory = Memory::rendezvous(group, buffer, 0);
      outcome.without = memory->view().why_no_multicast;
      EXPECT_EQ(outcome.without.empty(), memory->view().multicast != nullptr);
      *reinterpret_cast<int*>(memory->pointer(1 - rank)) = 7;
    });

    if (!forms) {
      EXPECT_NE(Memory::rendezvous(group, buffer, 0)->multicast(), nullptr);
    }

    return ended;
  };

  any_call_may_fail(std::bind_front(attempt, true),
      {"cuDevicePrimaryCtxRetain", "cuMemCreate", "cuMemAddressReserve", "cuMemMap",
          "cuMemSetAccess", "cuMemExportToShareableHandle", "cuMemImportFromShareableHandle",
          "cuMemHostAlloc", "cuStreamCreate", "cuEventCreate", "cuGraphAddKernelNode",
          "cuGraphLaunch", "without: cuMulticastGetGranularity", "without: cuGraphLaunch"});

  std::vector<std::string> calls = {"without: cuMemImportFromShareableHandle",
      "without: cuMulticastAddDevice", "without: cuMemRetainAllocationHandle",
      "without: cuMulticastBindMem", "without: cuMemAddressReserve", "without: cuMemMap",
      "without: cuMemSetAccess"};

  any_call_may_fail(std::bind_front(attempt, false), calls);
  calls.insert(
      calls.end(), {"without: cuMulticastCreate", "without: cuMemExportToShareableHandle"});
  any_call_may_fail(std::bind_front(attempt, false), calls, 0);

  EXPECT_EQ(fake_cuda::violations(), std::vector<std::string>());
}
}  // namespace
}  // namespace symm
