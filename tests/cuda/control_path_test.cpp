// The control path of the CUDA back end on the fake driver: all
// objects are released, and when any driver call fails on one
// rank, all ranks report the same error and nothing is left.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/call_tag.hpp"
#include "core/base/error.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/tag_table.hpp"
#include "core/group/collective.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/number.hpp"
#include "kernels/pieces.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/types.hpp"
#include "symm/symm.h"
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
  EXPECT_EQ(
      launched(), (std::map<std::string, int>{{"symm_barrier", 3}, {"symm_one_shot_bf16_3", 3}}));
}

// The calls of a batch are launched one behind the other. If one of them is impossible, none is.
TEST_F(CudaControlPath, ABatchIsLaunchedAsAWholeOrNotAtAll) {
  fake_cuda::launches();
  as_groups(2, [&](int rank, const auto& group) {
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1'000'000), 0);
    std::byte* const block = memory->pointer(rank);
    group->barrier({}, 0, 0, nullptr);
    const auto sum = [&](size_t at) {
      return call_of(Collective::allreduce, block + at, 1000, DType::bf16);
    };
    std::vector<CollectiveCall> calls = {sum(0), sum(4096), sum(8192)};
    run_batch(*group, calls);
    // What the kernels compare tells the place of each call.
    for (size_t i = 0; i < calls.size(); ++i) {
      const std::string said =
          CallSignature::unpacked(calls[i].packed(), calls[i].packed_count()).text();
      EXPECT_NE(said.find(format("as calls[%zu] of a batch", i)), std::string::npos) << said;
    }

    calls = {sum(0), sum(1024)};
    EXPECT_EQ(support::failure_of([&] { run_batch(*group, calls); }).message,
        "calls[1]: send: overlaps recv of calls[0]");
    calls = {sum(0), sum(4096)};
    calls[1].algorithm = Algorithm::bruck;
    EXPECT_EQ(support::failure_of([&] {
      run_batch(*group, calls);
    }).message.find("calls[1]: options.algorithm: "),
        0U);
    group->barrier({}, 0, 0, nullptr);
  });

  EXPECT_EQ(
      launched(), (std::map<std::string, int>{{"symm_barrier", 4}, {"symm_one_shot_bf16_2", 6}}));
}

// Calls of every kernel that combines, in a group of these ranks, of which the largest ones go by
// the pipeline.
void run_reductions(int ranks, bool in_tree) {
  as_groups(
      ranks,
      [](int rank, const auto& group) {
        constexpr size_t kMost = 16 << 20;
        const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 2 * kMost), 0);
        const auto run = [&](Collective collective, DType dtype, Op op, size_t bytes) {
          const size_t parts = traits(collective).send_per_rank ? group->size() : 1;
          CollectiveCall call =
              call_of(collective, memory->pointer(rank), bytes / parts / size_of(dtype), dtype);
          call.recv = memory->pointer(rank) + kMost;
          call.op = op;
          call.set_order(group->order(), group->size());
          run_collective(*group, call);
        };
        for (const Collective collective :
            {Collective::allreduce, Collective::reduce_scatter, Collective::reduce}) {
          for (const size_t bytes : {size_t{512}, size_t{400'000}, kMost}) {
            run(collective, DType::bf16, Op::sum, bytes);
            run(collective, DType::f64, Op::prod, bytes);
          }
        }
      },
      [in_tree](GroupConfig& config) {
        config.tree_order = in_tree;
        config.overlapping_devices = true;
      });
}

TEST_F(CudaControlPath, KernelsGetTheOrderOfTheCall) {
  for (const int ranks : {3, 4, 8}) {
    for (const bool in_tree : {false, true}) {
      fake_cuda::launches();
      run_reductions(ranks, in_tree);
      std::set<std::string> kernels;
      for (const fake_cuda::Launch& launch : fake_cuda::launches()) {
        if (launch.kernel == "symm_barrier") continue;
        kernels.insert(launch.kernel);
        // The tree of three ranks is their order.
        EXPECT_EQ(launch.in_tree, in_tree && ranks > 3) << launch.kernel;
      }
      EXPECT_GE(kernels.size(), 5U);
    }
  }
}

// Minima and integers have one order only, and a call may have an order of its own.
TEST_F(CudaControlPath, OnlyFloatsAreCombinedAsATree) {
  as_groups(4, [](int rank, const auto& group) {
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 4096), 0);
    const auto run = [&](DType dtype, Op op, Order order, bool expected) {
      CollectiveCall call = call_of(Collective::allreduce, memory->pointer(rank), 100, dtype);
      call.op = op;
      call.set_order(order, group->size());
      EXPECT_EQ(call.order == Order::tree, expected);
      run_collective(*group, call);
    };
    run(DType::i32, Op::sum, Order::tree, false);
    run(DType::f32, Op::max, Order::tree, false);
    run(DType::f32, Op::sum, Order::ranks, false);
    run(DType::f32, Op::avg, Order::tree, true);

    CollectiveCall call = call_of(Collective::allreduce, memory->pointer(rank), 100, DType::f32);
    call.set_order(Order::tree, group->size());
    call.algorithm = Algorithm::multimem_one_shot;
    support::expect_failure(Status::invalid_argument,
        {"options.algorithm: algorithm multimem_one_shot adds in the switch, not in tree order"},
        [&] { run_collective(*group, call); });
    group->barrier({}, 0, 0, nullptr);
  });
}

TEST_F(CudaControlPath, RefusesAveragesOfScansBytesAndBitsOfFloats) {
  as_groups(2, [](int rank, const auto& group) {
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 4096), 0);
    const auto run = [&](Collective collective, DType dtype, Op op) {
      CollectiveCall call = call_of(collective, memory->pointer(rank), 100, dtype);
      call.op = op;
      run_collective(*group, call);
    };
    for (const Collective scan : {Collective::scan, Collective::exscan}) {
      support::expect_failure(Status::invalid_argument,
          {std::string("op: there is no average in a ") + collective_name(scan)},
          [&] { run(scan, DType::f32, Op::avg); });
    }
    const auto broadcast_bytes = [&] {
      CollectiveCall call =
          call_of(Collective::broadcast_bytes, memory->pointer(rank), 0, DType::u8);
      Pieces pieces;
      call.pieces = &pieces;
      run_collective(*group, call);
    };
    support::expect_failure(Status::unsupported,
        {"collective: broadcast_bytes is of groups on the host"}, broadcast_bytes);
    support::expect_failure(Status::invalid_argument, {"op: band of f16"},
        [&] { run(Collective::allreduce, DType::f16, Op::band); });
    run(Collective::allreduce, DType::u16, Op::band);
  });
}

// Scans are in rank order whatever the order of the group, in plain streams and in graphs. A rank
// that is alone copies in a scan, and in an exscan gets the neutral element.
TEST_F(CudaControlPath, ScansHaveKernelsOfTheirOwn) {
  for (const int ranks : {1, 4}) {
    fake_cuda::launches();
    as_groups(
        ranks,
        [&](int rank, const auto& group) {
          const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 8 << 20), 0);
          for (const Collective scan : {Collective::scan, Collective::exscan}) {
            for (const size_t count : {100, 1'000'000}) {
              CollectiveCall call = call_of(scan, memory->pointer(rank), count, DType::f32);
              call.recv = memory->pointer(rank) + (4 << 20);
              call.op = Op::min;
              call.set_order(group->order(), group->size());
              run_collective(*group, call);
            }
          }
          if (ranks == 1) {
            group->synchronize(nullptr, 1000);
            const auto* results = reinterpret_cast<const float*>(memory->pointer(rank) + (4 << 20));
            EXPECT_EQ(results[0], std::numeric_limits<float>::infinity());
            EXPECT_EQ(results[999'999], std::numeric_limits<float>::infinity());
          }
        },
        [](GroupConfig& config) {
          config.tree_order = true;
          config.overlapping_devices = true;
        });

    std::multiset<std::string> kernels;
    for (const fake_cuda::Launch& launch : fake_cuda::launches()) {
      if (launch.kernel == "symm_barrier") continue;
      kernels.insert(launch.kernel);
      EXPECT_FALSE(launch.in_tree);
    }
    const size_t each = ranks == 1 ? 0 : static_cast<size_t>(2 * ranks);
    EXPECT_EQ(kernels.count("symm_ll_scan_4"), each);
    EXPECT_EQ(kernels.count("symm_pipeline_scan"), each);
    EXPECT_EQ(kernels.size(), 2 * each);
  }
}

// A neutral element of 8 or 16 bytes whose words differ.
TEST_F(CudaControlPath, AnExscanOfOneRankFillsBothParts) {
  as_groups(1, [&](int, const auto& group) {
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1 << 20), 0);
    std::byte* const recv = memory->pointer(0) + (1 << 16);
    const auto run = [&](DType dtype, Op op) {
      CollectiveCall call = call_of(Collective::exscan, memory->pointer(0), 3, dtype);
      call.recv = recv;
      call.op = op;
      run_collective(*group, call);
      group->synchronize(nullptr, 1000);
    };

    run(DType::c64, Op::prod);
    const auto* const singles = reinterpret_cast<const float*>(recv);
    EXPECT_EQ(std::vector<float>(singles, singles + 6), (std::vector<float>{1, 0, 1, 0, 1, 0}));
    run(DType::c128, Op::prod);
    const auto* const doubles = reinterpret_cast<const double*>(recv);
    EXPECT_EQ(std::vector<double>(doubles, doubles + 6), (std::vector<double>{1, 0, 1, 0, 1, 0}));

    run(DType::f64_i64, Op::maxloc);
    const auto* const indices = reinterpret_cast<const int64_t*>(recv);
    for (const size_t i : {0, 2, 4}) {
      EXPECT_EQ(doubles[i], -std::numeric_limits<double>::infinity());
      EXPECT_EQ(indices[i + 1], std::numeric_limits<int64_t>::max());
    }
  });
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
    const Scaling half{
        DType::bf16, DType::bf16, ScalePosition::before, Factor::value, {}, Number(0.5)};
    EXPECT_EQ(run(3'000'000, DType::bf16, half, 0), Seen(4, "f32, 2097152 elements at a time"));
    EXPECT_EQ(run(3'000'000, DType::bf16, {DType::bf16, DType::f32, {}, {}, {}, Number()}, apart),
        Seen(1, "f32"));
    EXPECT_EQ(run(3'000'000, DType::bf16,
                  {DType::bf16, DType::f32, ScalePosition::after, {}, {}, Number(2.0)}, apart),
        Seen(2, "f32"));
    EXPECT_EQ(run(3'000'000, DType::f32, {DType::f32, DType::bf16, {}, {}, {}, Number()}, apart),
        Seen(2, "f32, 2097152 elements at a time"));
    EXPECT_EQ(run(1000, DType::f64,
                  {DType::f64, DType::f64, ScalePosition::after, {}, {}, Number(2.0)}, apart),
        Seen(1, "f64"));
    EXPECT_EQ(run(0, DType::bf16, half, 0), Seen(0, "f32, 2097152 elements at a time"));

    CollectiveCall yes = call_of(Collective::allreduce, memory->pointer(0), 1000, DType::boolean);
    run_collective(*group, yes);

    // The bools of a single rank are made 0 or 1.
    EXPECT_EQ(fake_cuda::launches().size(), 1U);
  });
}

// Whatever a call is made of (a check, conversions, RMSNorm, copies by engines), none of its
// kernels has more blocks than it allows.
TEST_F(CudaControlPath, ACallLimitsTheBlocksOfAllItsKernels) {
  for (const int limit : {1, 3}) {
    fake_cuda::launches();
    as_groups(
        3,
        [&](int rank, const auto& group) {
          const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 48 << 20), 0);
          const auto run = [&](CollectiveCall call) {
            call.block_limit = static_cast<uint8_t>(limit);
            const std::string reason = plan_collective(*group, call).reason;
            EXPECT_NE(reason.find("blocks by max_blocks"), std::string::npos) << reason;
            run_collective(*group, call);
          };
          std::byte* const block = memory->pointer(rank);
          for (const size_t count : {100, 10'000, 3'000'000}) {
            run(call_of(Collective::allreduce, block, count, DType::bf16));
            CollectiveCall scaled = call_of(Collective::allreduce, block, count, DType::bf16);
            scaled.scaling = {
                DType::bf16, DType::bf16, ScalePosition::before, Factor::value, {}, Number(0.5)};
            run(scaled);

            CollectiveCall gathered = call_of(Collective::allgather, block, count, DType::bf16);
            gathered.recv = block + (8 << 20);
            run(gathered);
            gathered.algorithm = Algorithm::copy_engine;
            run(gathered);
          }

          RmsNorm norm{};
          norm.hidden = 1024;
          norm.weight = block;
          norm.weight_dtype = DType::bf16;
          norm.norm_out = block + (16 << 20);
          CollectiveCall rows =
              call_of(Collective::allreduce_rmsnorm, block + (8 << 20), 1024 * 1000, DType::bf16);
          rows.recv = nullptr;
          rows.root = 1024;
          rows.norm = &norm;
          run(rows);
        },
        [](GroupConfig& config) { config.check = true; });

    std::map<std::string, unsigned> most;
    for (const auto& launch : fake_cuda::launches()) {
      most[launch.kernel] = std::max(most[launch.kernel], launch.blocks);
    }
    for (const auto& [kernel, blocks] : most) {
      EXPECT_LE(blocks, static_cast<unsigned>(limit)) << kernel;
    }
    for (const char* kernel : {"symm_check", "symm_convert", "symm_barrier"}) {
      EXPECT_TRUE(most.contains(kernel)) << kernel;
    }
    EXPECT_GT(most.size(), 5U);
  }
}

// A kernel that gives up knows the tag of its call, whichever call finds that out.
TEST_F(CudaControlPath, AFailureOnTheDeviceIsToldWithTheTag) {
  static std::atomic<bool> gives_up{true};
  fake_cuda::carry_out("symm_two_shot_f32_3", [](const void* arguments) -> std::function<bool()> {
    const cuda::DeviceComm comm = static_cast<const cuda::CollectiveArgs*>(arguments)->comm;
    if (!gives_up || comm.rank != 0 || comm.record == 0) return [] { return true; };
    return gives_up_on(comm, 2);
  });

  // The others neither leave nor hear of the failure before they have made their calls.
  std::barrier all_there(3);
  as_groups(3, [&](int rank, const auto& group) {
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1'000'000), 0);
    CollectiveCall call = call_of(Collective::allreduce, memory->pointer(rank), 1000, DType::f32);
    call.algorithm = Algorithm::two_shot;
    call.timeout_ms = 1000;
    {
      const CallTag tagged("gradients");
      run_collective(*group, call);
    }
    all_there.arrive_and_wait();
    if (rank != 0) {
      all_there.arrive_and_wait();
      return;
    }

    const CallTag tagged("another");
    const Failure failure = support::failure_of([&] { run_collective(*group, call); });
    EXPECT_EQ(failure.status, Status::timeout);
    EXPECT_EQ(failure.rank, 2);
    EXPECT_NE(failure.message.find("allreduce on device 0"), std::string::npos) << failure.message;
    EXPECT_NE(
        failure.message.find("; the call of rank 0 has the tag \"gradients\""), std::string::npos)
        << failure.message;
    all_there.arrive_and_wait();
  });
  gives_up = false;
}

// A thread that copies to pageable memory waits for a kernel, the driver makes all others wait for
// that thread, and the kernel waits for a rank that does not come.
TEST_F(CudaControlPath, KernelsAreToldOfAnAbortWhileTheDriverWaits) {
  static const cuda::ToldOf<cuda::kSmallRanks>* told = nullptr;
  fake_cuda::carry_out("symm_one_shot_f32_2", [](const void* arguments) -> std::function<bool()> {
    const cuda::DeviceComm comm = static_cast<const cuda::CollectiveArgs*>(arguments)->comm;
    if (comm.size != 0 && comm.rank == 0) {
      told = reinterpret_cast<const cuda::ToldOf<cuda::kSmallRanks>*>(comm.record + cuda::kToldAt);
    }
    return [] { return true; };
  });

  std::barrier together(2);
  as_groups(2, [&](int rank, const auto& group) {
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 1'000'000), 0);
    run_collective(*group, call_of(Collective::allreduce, memory->pointer(rank), 1000, DType::f32));
    together.arrive_and_wait();
    if (rank == 0) {
      EXPECT_EQ(told->abort, 0U);
      fake_cuda::settings().copying = true;
    }
    together.arrive_and_wait();
    if (rank == 1) group->fail({Status::aborted, rank, 0, "a test"});

    if (rank == 0) {
      const auto is_told = [] { return std::atomic_ref(told->abort).load() != 0; };
      for (int i = 0; i < 5000 && !is_told(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      EXPECT_TRUE(is_told());
      fake_cuda::settings().copying = false;
    }
    together.arrive_and_wait();
  });
}

// The rows of a rank that is alone are normalised where they lie, all by one kernel.
TEST_F(CudaControlPath, RowsOfOneRankAreNormalisedWithoutAnAllReduce) {
  static std::atomic<uint64_t> sums;
  static std::atomic<uint64_t> rows;
  fake_cuda::carry_out("symm_rmsnorm_bf16_1", [](const void* arguments) -> std::function<bool()> {
    const auto* const args = static_cast<const cuda::RmsNormArgs*>(arguments);
    if (args->call.comm.size == 0) return [] { return true; };
    sums = args->call.send;
    rows = args->rows;
    return [] { return true; };
  });

  as_groups(1, [](int, const auto& group) {
    constexpr size_t kTokens = 10'000;  // more than scratch holds
    const auto memory = Memory::rendezvous(group, Buffer::allocate(*group, 64 << 20), 0);
    std::byte* const block = memory->pointer(0);
    RmsNorm norm{};
    norm.hidden = 1024;
    norm.weight = block;
    norm.weight_dtype = DType::bf16;
    norm.norm_out = block + (32 << 20);
    CollectiveCall call = call_of(
        Collective::allreduce_rmsnorm, block + (8 << 20), norm.hidden * kTokens, DType::bf16);
    call.recv = nullptr;
    call.op = Op::sum;
    call.root = 1024;
    call.norm = &norm;
    fake_cuda::launches();
    run_collective(*group, call);

    std::vector<std::string> kernels;
    for (const auto& launch : fake_cuda::launches()) {
      kernels.push_back(launch.kernel);
    }
    EXPECT_EQ(kernels, std::vector<std::string>{"symm_rmsnorm_bf16_1"});
    EXPECT_EQ(sums, reinterpret_cast<uint64_t>(call.send));
    EXPECT_EQ(rows, kTokens);
  });
}

TEST(TagTable, ForgetsTheOldest) {
  cuda::TagTable tags;
  EXPECT_EQ(tags.number_of(nullptr), 0U);
  EXPECT_EQ(tags.find(0), "");
  EXPECT_EQ(tags.find(7), "");
  const uint32_t first = tags.number_of("first");
  EXPECT_NE(first, 0U);
  EXPECT_EQ(tags.number_of("first"), first);

  for (uint32_t i = 1; i < cuda::TagTable::kMost; ++i) {
    EXPECT_EQ(tags.find(tags.number_of(std::to_string(i).c_str())), std::to_string(i));
  }
  EXPECT_EQ(tags.find(first), "first");
  tags.number_of("one more");
  EXPECT_EQ(tags.find(first), "") << "a call that is replayed has no tag any more";
  const uint32_t again = tags.number_of("first");
  EXPECT_NE(again, first);
  EXPECT_EQ(tags.find(again), "first");
}

// A launch names the memory into which peers may store. Counts on the device are read by the kernel
// and not by the host. Long, since it is a table of calls on the operands of one group.
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

    const PieceCounts gathered{.recv_counts = &four, .own_count = four};
    EXPECT_EQ(run(Collective::gatherv, own, block, gathered), moved);
    const PieceCounts scattered{.send_counts = &four, .own_count = four};
    EXPECT_EQ(run(Collective::scatterv, own, block, scattered), moved);

    const PieceCounts rows{.rows = 3, .row_count = 7, .stride = 9};
    EXPECT_EQ(run(Collective::allgather_rows, own, block, rows, 3 * 7), moved);
    EXPECT_EQ(run(Collective::reduce_scatterv, own, block, {.send_counts = &four}),
        Seen("symm_pieces_reduce_bf16", false));
    EXPECT_EQ(run(Collective::reduce_scatter_rows, own, block, rows, 3 * 7),
        Seen("symm_pieces_reduce_bf16", false));

    const auto& counted = group->transport().stats().shown.collectives;
    EXPECT_EQ(group->transport().stats().shown.call.value() & 0xFF,
        static_cast<size_t>(Collective::reduce_scatter_rows) + 1);
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
