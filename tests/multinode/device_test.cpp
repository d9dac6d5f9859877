// Groups of GPUs on several machines, which SYMM_MACHINE makes of this
// host. NCCL and the driver are fakes; symm's kernels are carried out
// by the CPU. Every collective is compared with the scalar reference,
// with which other tests compare the collectives of one machine.
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/call_tag.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/group/collective.hpp"
#include "core/group/group.hpp"
#include "core/group/neighbor_exchange.hpp"
#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/number.hpp"
#include "kernels/pieces.hpp"
#include "kernels/types.hpp"
#include "symm/symm.h"
#include "tests/cuda/group.hpp"
#include "tests/cuda/processes.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"
#include "tests/kernels/cuda/model/kernels/cuda/memory.cuh"
#include "tests/kernels/reference.hpp"
#include "tests/kernels/values.hpp"
#include "tests/support/float_mode.hpp"
#include "tests/support/pieces.hpp"
#include "tools/bench/reference.hpp"

extern "C" void symm_combine(symm::cuda::CombineArgs args);
extern "C" void symm_compare(symm::cuda::ComparisonArgs args);
extern "C" void symm_stage(symm::cuda::StageArgs args);
extern "C" void symm_convert(symm::cuda::ConvertArgs args);

namespace symm::cuda::model {  // one thread at a time

void store(uint32_t* to, uint32_t value) { *to = value; }

void fence() {}
}  // namespace symm::cuda::model

namespace symm {
namespace {
using Bytes = std::vector<std::byte>;

template <class Args>
void carry_out(const char* name, void (*kernel)(Args)) {
  fake_cuda::carry_out(name, [kernel](const void* arguments) {
    return [kernel, args = *static_cast<const Args*>(arguments)] {
      cuda::model::grid_size = cuda::model::block_size = {1};
      // Whoever runs it, a device has a mode of its own.
      const support::InMode of_device(support::kDefaultMode);
      kernel(args);
      return true;
    };
  });
}

// Does the work of symm_barrier in kernels/cuda/signal.cu.
// What it returns is polled until it is true.
std::function<bool()> barrier(const void* arguments) {
  const auto args = *static_cast<const cuda::BarrierArgs*>(arguments);
  const auto control = [args](int rank) {
    return reinterpret_cast<cuda::ControlWords*>(args.comm.control[rank]);
  };

  return [args, control, claimed = std::vector<uint32_t>()]() mutable {
    const auto word = [](uint32_t& at) -> std::atomic_ref<uint32_t> { return std::atomic_ref(at); };
    cuda::ControlWords& mine = *control(args.comm.rank);
    bool over = true;
    for (int rank = 0; rank < args.comm.size; ++rank) {
      if (!args.ranks.has(rank)) continue;
      const auto at = static_cast<size_t>(rank);
      if (claimed.size() <= at) {
        claimed.resize(at + 1);
        claimed[at] = ++word(mine.barrier_taken[args.channel][rank]);
        ++word(control(rank)->from_peers.barrier[args.channel][args.comm.rank]);
      }
      over = over && word(mine.from_peers.barrier[args.channel][rank]) >= claimed[at];
    }
    return over || word(mine.abort) != 0;
  };
}

void tune(const std::string& more) {
  setenv("SYMM_CUDA_TUNE", (std::string(getenv("SYMM_CUDA_TUNE")) + "," + more).c_str(), 1);
}

const bool carried_out = [] {
  carry_out("symm_combine", symm_combine);
  carry_out("symm_convert", symm_convert);
  carry_out("symm_compare", symm_compare);
  carry_out("symm_stage", symm_stage);
  fake_cuda::carry_out("symm_barrier", barrier);
  return true;
}();

// ---- bits

struct Case {
  Collective collective;
  DType dtype;
  Op op;
  size_t count;
  Algorithm algorithm = Algorithm::automatic;
  bool in_place = false;
  bool scaled = false;
  double factor = 0.5;
  support::FloatMode mode = support::kDefaultMode;  // of the thread that makes the call
};

Bytes operand_of(const Case& c, size_t rank, size_t n) {
  const bool per_rank = traits(c.collective).send_per_rank;
  return testing::Values(c.dtype, c.op, static_cast<unsigned>(rank + 31 * (c.count % 1000)))
      .make(c.count * (per_rank ? n : 1));
}

// The bytes that rank `me` must get; the root is rank 1.
Bytes expected_of(const Case& c, size_t me, size_t n, symm_order_t order) {
  std::vector<Bytes> send;
  for (size_t rank = 0; rank < n; ++rank) {
    send.push_back(operand_of(c, rank, n));
  }

  const bool of_prefix = traits(c.collective).of_prefix;
  if (of_prefix) {
    const auto first = static_cast<int>(me);
    send.resize(static_cast<size_t>(ranks_combined(c.collective, first, static_cast<int>(n))));
  }
  const DType result = c.scaled ? DType::f32 : c.dtype;
  const auto combine = [&](const std::vector<reference::Bits>& bits) {
    const auto factor = [&](int) { return c.factor; };
    return c.scaled ? reference::reduce_scaled(
                          c.dtype, c.op, bits, result, SYMM_SCALE_AFTER, factor, 0, order)
                    : reference::reduce(c.dtype, c.op, bits, order);
  };

  if (of_prefix) return reference::combined(c.dtype, send, 0, c.count, c.dtype, combine);
  return reference::result_of(c.collective, send, c.count * size_of(c.dtype), static_cast<int>(me),
      1,
      [&](size_t at) { return reference::combined(c.dtype, send, at, c.count, result, combine); });
}

void finish(Group& group, CollectiveCall call, const PieceCounts& counts = {}) {
  call.timeout_ms = 20'000;
  Pieces pieces;
  pieces.counts = counts;
  if (traits(call.collective).in_pieces) call.pieces = &pieces;
  call.set_order(group.order(), group.size());
  run_collective(group, call);
  group.synchronize(nullptr, 20'000);
}

void compare(Group& group, const Case& c) {
  const auto n = static_cast<size_t>(group.size());
  const auto me = static_cast<size_t>(group.rank());
  Bytes send = operand_of(c, me, n);
  const symm_order_t order = group.order() == Order::tree ? SYMM_ORDER_TREE : SYMM_ORDER_RANKS;
  const Bytes expected = expected_of(c, me, n, order);
  const DType result = c.scaled ? DType::f32 : c.dtype;
  Bytes recv(std::max(expected.size(), c.count * size_of(result)), std::byte{0x5A});

  CollectiveCall call = call_of(c.collective, recv.data(), c.count, c.dtype);
  call.send = send.data();
  if (c.in_place) {
    recv = send;
    call.recv = recv.data();
    call.send = recv.data();
  }
  call.op = c.op;
  call.root = traits(c.collective).has_root() ? 1 : 0;
  call.algorithm = c.algorithm;
  if (c.scaled)
    call.scaling = {c.dtype, result, ScalePosition::after, Factor::value, {}, Number(c.factor)};
  {
    const support::InMode strange(c.mode);
    finish(group, call);
  }

  recv.resize(expected.size());
  EXPECT_EQ(reference::difference(
                result, recv.data(), expected.data(), expected.size() / size_of(result)),
      "")
      << collective_name(c.collective) << ' ' << dtype_name(c.dtype) << ' ' << op_name(c.op) << ' '
      << c.count << ' ' << algorithm_name(c.algorithm);
}

// Compares a collective in pieces, which are drawn alike on all ranks. Elements are
// i32; some pieces are larger than a slot, and some seeds put the counts on the device.
void compare(Group& group, support::PiecesKind kind, unsigned seed) {
  using support::PiecesKind;
  constexpr Collective kCollectives[] = {Collective::alltoallv, Collective::allgatherv,
      Collective::reduce_scatterv, Collective::gather, Collective::scatter,
      Collective::allgather_rows, Collective::reduce_scatter_rows, Collective::gatherv,
      Collective::scatterv};

  std::mt19937 random(seed);
  const bool reduces = is_reduced(kind);
  const auto n = static_cast<size_t>(group.size());
  const auto me = static_cast<size_t>(group.rank());
  const support::DrawnPieces drawn(kind, n, sizeof(int32_t), seed % 3 == 2, random,
      reduces ? support::sums(random) : support::Elements(), 1, me);
  const support::PiecesOfRank& mine = drawn.of[me];
  const std::array<support::Counts, 4> lists = mine.lists(drawn.element);
  Bytes memory = mine.before;

  CollectiveCall call =
      call_of(kCollectives[static_cast<size_t>(kind)], memory.data() + mine.recv_at, 0, DType::i32);
  call.send = memory.data() + mine.send_at;
  if (traits(call.collective).has_root()) call.root = static_cast<int>(drawn.root);

  PieceCounts counts;
  Bytes sent = memory;
  if (kind == PiecesKind::gather) {
    call.count = lists[0][drawn.root];
  } else if (kind == PiecesKind::scatter) {
    call.count = lists[2][drawn.root];
  } else if (is_in_rows(kind)) {
    const size_t row_count = drawn.row / drawn.element;
    call.count = drawn.rows * row_count;
    counts = {.rows = drawn.rows, .row_count = row_count, .stride = mine.stride / drawn.element};
  } else {
    if (traits(call.collective).to_root) counts.own_count = lists[0][drawn.root];
    if (traits(call.collective).from_root) counts.own_count = lists[2][drawn.root];
    if (kind != PiecesKind::allgatherv && kind != PiecesKind::gatherv) {
      counts.send_counts = lists[0].data();
      counts.send_displacements = lists[1].data();
    }
    if (!reduces && kind != PiecesKind::scatterv) {
      counts.recv_counts = lists[2].data();
      counts.recv_displacements = lists[3].data();
    }
    if (kind == PiecesKind::alltoallv && seed % 3 == 1) {
      for (const support::PiecesOfRank& one : drawn.of) {
        sent.resize(std::max(sent.size(), one.before.size()));
      }
      call.send = sent.data();
      counts.capacities = Capacities{sent.size() / drawn.element, mine.recv_bytes / drawn.element};
    }
  }

  finish(group, call, counts);
  EXPECT_TRUE(memory == mine.after) << collective_name(call.collective) << ", seed " << seed;
}

// Every type with every operation that it has.
std::vector<std::pair<DType, Op>> all_reductions() {
  std::vector<std::pair<DType, Op>> all;
  for (const DType dtype : reference::kDTypes) {
    for (const Op op : reference::kOps) {
      if (reference::has_op(dtype, op)) all.emplace_back(dtype, op);
    }
  }
  return all;
}

// Ranks whose threads round, flush or trap, each in its own way, choose the same algorithm and get
// the same bits.
TEST(CudaFloatMode, OfTheCallerDoesNotMatter) {
  expect_well(on_machines("aabb", [](const std::shared_ptr<Group>& group) {
    const auto modes = support::strange_modes();
    for (size_t turn = 0; turn < modes.size(); ++turn) {
      for (const size_t count : {size_t{333}, size_t{20'000}}) {
        for (const double factor : {0.1, 1 / 3.0, 1e-40}) {
          Case c{Collective::allreduce, DType::f32, Op::sum, count};
          c.scaled = true;
          c.factor = factor;
          c.mode = modes[(turn + static_cast<size_t>(group->rank())) % modes.size()];
          compare(*group, c);
        }
      }
    }
  }));
}

// Nine ranks and more have products that f32 cannot hold.
TEST(CudaF8, ProductsOfFiniteNumbersSaturate) {
  expect_well(on_machines("aaaaabbbbb", [](const std::shared_ptr<Group>& group) {
    const bool is_last = group->rank() == group->size() - 1;
    for (const auto& [dtype, most] :
        {std::pair{DType::f8e4m3, std::byte{0x7E}}, std::pair{DType::f8e5m2, std::byte{0x7B}}}) {
      for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::one_shot,
               Algorithm::two_shot, Algorithm::chain, Algorithm::hierarchical}) {
        Bytes send(200, most);
        if (is_last) std::fill(send.begin() + 100, send.end(), std::byte{0});
        Bytes expected(200, most);
        std::fill(expected.begin() + 100, expected.end(), std::byte{0});
        Bytes recv(200);

        CollectiveCall call = call_of(Collective::allreduce, recv.data(), recv.size(), dtype);
        call.send = send.data();
        call.op = Op::prod;
        call.algorithm = algorithm;
        finish(*group, call);
        EXPECT_TRUE(recv == expected) << dtype_name(dtype) << ' ' << algorithm_name(algorithm);
      }
    }
  }));
}

class CudaMultinode : public ::testing::TestWithParam<const char*> {};

TEST_P(CudaMultinode, SumsAreThoseOfOneMachine) {
  expect_well(on_machines(GetParam(), [](const std::shared_ptr<Group>& group) {
    for (const auto& [dtype, op] : all_reductions()) {
      for (const size_t count : {size_t{1}, size_t{333}}) {
        for (const Algorithm algorithm : {Algorithm::one_shot, Algorithm::two_shot}) {
          compare(*group, {Collective::allreduce, dtype, op, count, algorithm});
          compare(*group, {Collective::reduce, dtype, op, count, algorithm});
        }
        compare(*group, {Collective::reduce_scatter, dtype, op, count, Algorithm::two_shot});
      }
      compare(*group, {Collective::allreduce, dtype, op, 50, Algorithm::automatic, true});
    }

    // Operands that are larger than the scratch.
    for (const Algorithm algorithm : {Algorithm::one_shot, Algorithm::two_shot}) {
      compare(*group, {Collective::allreduce, DType::bf16, Op::sum, 70'001, algorithm, true});
    }
    compare(*group, {Collective::reduce, DType::f32, Op::sum, 70'001});
    compare(*group, {Collective::reduce_scatter, DType::f16, Op::avg, 20'001});

    for (const Collective collective : {Collective::allreduce, Collective::reduce_scatter}) {
      compare(*group, {collective, DType::bf16, Op::sum, 301, Algorithm::automatic, false, true});
    }
  }));
}

// Ranks of a machine combine their operands where these lie.
TEST_P(CudaMultinode, ScansAreThoseOfOneMachine) {
  expect_well(on_machines(GetParam(), [](const std::shared_ptr<Group>& group) {
    for (const Collective scan : {Collective::scan, Collective::exscan}) {
      for (const auto& [dtype, op] : all_reductions()) {
        if (op == Op::avg) continue;
        compare(*group, {scan, dtype, op, 1});
        compare(*group, {scan, dtype, op, 333, Algorithm::one_shot, true});
      }
      // Operands that are larger than the scratch.
      compare(*group, {scan, DType::bf16, Op::sum, 70'001, Algorithm::automatic, true});

      CollectiveCall call = call_of(scan, nullptr, 0, DType::f32);
      call.algorithm = Algorithm::two_shot;
      support::expect_failure(Status::invalid_argument,
          {"options.algorithm: two_shot between GPUs does no scan"}, [&] { finish(*group, call); });
    }
  }));
}

TEST(CudaMultinodeMachines, CombineTheirOwnRanksOperands) {
  expect_well(on_machines("aabbcc",
      [](const std::shared_ptr<Group>& group) {
        for (const auto& [dtype, op] : all_reductions()) {
          const bool is_sum = is_float(combined_as(dtype, op)) && depends_on_order(dtype, op);
          for (const size_t count : {size_t{1}, size_t{96}, size_t{2'000}}) {
            if (is_sum) {
              const bool in_place = count == 96;
              compare(
                  *group, {Collective::allreduce, dtype, op, count, Algorithm::chain, in_place});
            } else if (op != Op::avg && !depends_on_order(dtype, op)) {
              compare(*group, {Collective::allreduce, dtype, op, count, Algorithm::hierarchical});
              compare(
                  *group, {Collective::reduce_scatter, dtype, op, count, Algorithm::hierarchical});
            }
          }
        }

        // Operands that are larger than the scratch.
        for (const DType dtype : {DType::f8e5m2, DType::bf16, DType::f64}) {
          compare(*group, {Collective::allreduce, dtype, Op::avg, 100'001, Algorithm::chain, true});
          compare(*group,
              {Collective::allreduce, dtype, Op::max, 100'001, Algorithm::hierarchical, true});
          compare(*group,
              {Collective::reduce_scatter, dtype, Op::min, 30'001, Algorithm::hierarchical});
        }
      },
      {.before = [](int) { tune("hop=512"); }}));
}

// Rank 0 has 1, the others 2^-24. Added one by one, each of these is lost to rounding;
// added within each machine first, the second machine's sum, 2^-23, is not.
TEST(CudaMultinodeMachines, AddOneByOneWhereTheyAreAskedTo) {
  expect_well(on_machines("aabb",
      [](const std::shared_ptr<Group>& group) {
        for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::hierarchical}) {
          for (const Op op : {Op::sum, Op::avg}) {
            std::vector<float> data(1'000, group->rank() == 0 ? 1.0F : 0x1p-24F);
            CollectiveCall call =
                call_of(Collective::allreduce, data.data(), data.size(), DType::f32);
            call.op = op;
            call.algorithm = algorithm;

            const bool in_order = algorithm == Algorithm::automatic;
            // The default device is that of the rank's place on its machine.
            EXPECT_EQ(group->backend().device(), group->rank() % 2);
            EXPECT_EQ(plan_collective(*group, call).algorithm,
                in_order ? Algorithm::chain : Algorithm::hierarchical);
            finish(*group, call);
            EXPECT_EQ(data[0] * (op == Op::avg ? 4.0F : 1.0F), in_order ? 1.0F : 1.0F + 0x1p-23F);
          }
        }
      },
      {.before = [](int) { tune("hop=1"); },
          .change =
              [](GroupConfig& config) {
                config.device = -1;
                config.overlapping_devices = true;
              }}));
}

// The back end of a machine would make the calls between this machine's GPUs only.
TEST_P(CudaMultinode, CallsOfABatchSpanTheMachines) {
  expect_well(on_machines(GetParam(), [](const std::shared_ptr<Group>& group) {
    const int n = group->size();
    constexpr size_t kCount = 333;
    std::vector<int32_t> sum(kCount, group->rank() + 1);
    std::vector<int32_t> largest(kCount, group->rank());
    std::vector<int32_t> sent(kCount, 100 + group->rank());

    std::vector<CollectiveCall> calls = {
        call_of(Collective::allreduce, sum.data(), kCount, DType::i32),
        call_of(Collective::allreduce, largest.data(), kCount, DType::i32),
        call_of(Collective::broadcast, sent.data(), kCount, DType::i32),
    };
    calls[1].op = Op::max;
    calls[2].root = n - 1;
    for (CollectiveCall& call : calls) {
      call.timeout_ms = 20'000;
    }
    run_batch(*group, calls);
    group->synchronize(nullptr, 20'000);

    EXPECT_EQ(sum, std::vector<int32_t>(kCount, n * (n + 1) / 2));
    EXPECT_EQ(largest, std::vector<int32_t>(kCount, n - 1));
    EXPECT_EQ(sent, std::vector<int32_t>(kCount, 100 + n - 1));
  }));
}

TEST_P(CudaMultinode, MovesAreThoseOfOneMachine) {
  expect_well(on_machines(GetParam(), [](const std::shared_ptr<Group>& group) {
    for (const Collective collective :
        {Collective::allgather, Collective::broadcast, Collective::alltoall}) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{777}, size_t{30'001}}) {
        compare(*group, {collective, DType::i32, Op::sum, count});
        if (collective == Collective::allgather) continue;
        compare(*group, {collective, DType::i32, Op::sum, count, Algorithm::automatic, true});
      }
    }

    for (unsigned seed = 0; seed < 12; ++seed) {
      for (const support::PiecesKind kind : support::kPiecesKinds) {
        compare(*group, kind, seed);
      }
    }
  }));
}

INSTANTIATE_TEST_SUITE_P(Layouts, CudaMultinode, ::testing::Values("ab", "aabb", "abba"),
    [](const auto& one) { return std::string(one.param); });

// ---- what a group is and says

TEST(CudaMultinodeGroup, TellsItsEngineAndTheOrderOfSums) {
  expect_well(on_machines("aab", [](const std::shared_ptr<Group>& group) {
    EXPECT_EQ(group->transport().engine(), "nccl 2.27.3");
    const auto reason = [&](DType dtype, size_t count, Algorithm algorithm = Algorithm::automatic) {
      float data = 0;
      CollectiveCall call = call_of(Collective::allreduce, &data, count, dtype);
      call.algorithm = algorithm;
      return plan_collective(*group, call).reason;
    };

    EXPECT_EQ(reason(DType::f32, 8),
        "2 machines over nccl 2.27.3: all operands go to all ranks, which combine them in rank "
        "order");
    EXPECT_NE(reason(DType::f32, 1 << 20).find("each rank combines a slice"), std::string::npos);
    EXPECT_NE(
        reason(DType::i32, 8).find("of integers the order does not matter"), std::string::npos);
    EXPECT_NE(reason(DType::f32, 8, Algorithm::hierarchical).find("forced: "), std::string::npos);
    support::expect_failure(Status::invalid_argument, {"options.algorithm", "equally many"},
        [&] { reason(DType::f32, 8, Algorithm::chain); });
    support::expect_failure(Status::invalid_argument, {"hierarchical", "NCCL adds"},
        [&] { reason(DType::f8e4m3, 8, Algorithm::hierarchical); });

    // Subsets meet within a machine and across.
    const int32_t pair[] = {1, 2};
    for (int i = 0; i < 3; ++i) {
      group->barrier({}, i % 2, 20'000, nullptr);
      if (group->rank() != 0) group->barrier(pair, 0, 20'000, nullptr);
    }
    group->synchronize(nullptr, 20'000);
  }));
}

// Each refusal says what the engines lack, and leaves the group as it is.
TEST(CudaMultinodeGroup, RefusesWhatItsEnginesCannotDo) {
  expect_well(on_machines("ab", [](const std::shared_ptr<Group>& group) {
    std::byte byte{};
    for (const bool is_send : {true, false}) {
      support::expect_failure(Status::unsupported, {"several machines", "NCCL", "channels"}, [&] {
        MessageSide side{is_send, 1 - group->rank(), 0, &byte, 1};
        group->pass_message(side, 20'000, nullptr);
      });
    }
    support::expect_failure(Status::unsupported, {"several machines", "NCCL", "UCX"}, [&] {
      NeighborExchange::create(group, [] { return std::vector<NeighborPart>(); }, 20'000);
    });
    group->barrier({}, 0, 20'000, nullptr);
    group->synchronize(nullptr, 20'000);
  }));
}

// Sums of more than a slot, where some ranks have no counterpart on the other machine.
TEST(CudaMultinodeGroup, RanksOfUnequalMachinesDivideLongSumsAlike) {
  expect_well(on_machines("aaab",
      [](const std::shared_ptr<Group>& group) {
        for (const Collective collective :
            {Collective::allreduce, Collective::reduce_scatter, Collective::reduce}) {
          compare(*group, {collective, DType::f32, Op::sum, 6'001});
        }
      },
      {.before = [](int) { tune("hop=512"); }}));
}

// Floats by one shot and by two, in a group in tree order. The other ways add otherwise, and are
// refused.
TEST(CudaMultinodeGroup, CombinesAsATree) {
  for (const char* layout : {"aabb", "aaab", "abcde", "aabbcc"}) {
    expect_well(on_machines(layout,
        [](const std::shared_ptr<Group>& group) {
          for (const DType dtype : {DType::bf16, DType::f32, DType::f64, DType::f8e4m3}) {
            for (const Op op : {Op::sum, Op::avg, Op::prod}) {
              for (const size_t count : {size_t{7}, size_t{3'001}}) {
                for (const Collective collective :
                    {Collective::allreduce, Collective::reduce_scatter, Collective::reduce}) {
                  compare(*group, {collective, dtype, op, count});
                }
              }
            }
          }
          compare(*group, {Collective::allreduce, DType::bf16, Op::sum, 999, {}, false, true});
          compare(*group, {Collective::allreduce, DType::i32, Op::sum, 999});

          std::vector<float> data(100);
          CollectiveCall call =
              call_of(Collective::allreduce, data.data(), data.size(), DType::f32);
          call.set_order(Order::tree, group->size());
          EXPECT_NE(plan_collective(*group, call).reason.find("in tree order"), std::string::npos);
          for (const Algorithm algorithm : {Algorithm::chain, Algorithm::hierarchical}) {
            call.algorithm = algorithm;
            support::expect_failure(Status::invalid_argument,
                {std::string("options.algorithm: ") + algorithm_name(algorithm),
                    "between GPUs adds in"},
                [&] { run_collective(*group, call); });
          }
        },
        {.before = [](int) { tune("hop=512"); },
            .change = [](GroupConfig& config) { config.tree_order = true; }}));
  }
}

// In rank order, 1 + 2^-24 is rounded to 1, twice. The fake
// NCCL adds 2^-24 + 2^-24 first, which gives other bits.
TEST(CudaMultinodeGroup, NcclAddsWhereAnyOrderWillDo) {
  for (const bool any : {false, true}) {
    expect_well(on_machines("aab",
        [any](const std::shared_ptr<Group>& group) {
          float data = group->rank() == 0 ? 1.0F : 0x1p-24F;
          CollectiveCall call = call_of(Collective::allreduce, &data, 1, DType::f32);
          finish(*group, call);
          EXPECT_EQ(data, any ? 1.0F + 0x1p-23F : 1.0F);

          for (const DType dtype : {DType::i8, DType::u32, DType::i64}) {
            for (const Op op : {Op::sum, Op::min, Op::max, Op::prod, Op::bxor}) {
              compare(*group, {Collective::allreduce, dtype, op, 99});
              compare(*group, {Collective::reduce_scatter, dtype, op, 99});
            }
          }
        },
        {.change = [any](GroupConfig& config) { config.any_order = any; }}));
  }
}

// Calls of one group on two streams run one after the other.
TEST(CudaMultinodeGroup, CallsOnTwoStreamsKeepTheirOrder) {
  expect_well(on_machines("ab", [](const std::shared_ptr<Group>& group) {
    auto* const second = reinterpret_cast<void*>(uintptr_t{1} << 20);
    float data = static_cast<float>(group->rank() + 1);
    CollectiveCall call = call_of(Collective::allreduce, &data, 1, DType::f32);
    call.timeout_ms = 20'000;
    for (int i = 0; i < 6; ++i) {
      call.stream = i % 2 == 0 ? nullptr : second;
      run_collective(*group, call);
    }
    group->synchronize(second, 20'000);
    EXPECT_EQ(data, 3.0F * 32);

    // While a stream is captured, no call may ask the driver about it.
    fake_cuda::begin_capture(second);
    run_collective(*group, call);
    EXPECT_TRUE(fake_cuda::violations().empty());
    fake_cuda::end_capture(second);
  }));
}

// The scratch of a group across machines serves its parts, across machines and within one.
TEST(CudaMultinodeGroup, LendsItsScratchToItsParts) {
  const auto body = [](const std::shared_ptr<Group>& group) {
    const auto across = group->split(group->rank() % 2, 0);
    const auto within = group->split(group->rank() / 2, 0);
    EXPECT_NE(across->transport().lent_bytes(), 0U);
    EXPECT_NE(within->transport().lent_bytes(), 0U);
    EXPECT_EQ(group->transport().lent_bytes(), 0U);

    compare(*across, {Collective::allreduce, DType::f32, Op::sum, 100});
    compare(*group, {Collective::allreduce, DType::f32, Op::sum, 100});
  };
  const auto share = [](GroupConfig& config) { config.shared_scratch = true; };
  expect_well(on_machines("aabb", body, {.change = share}));
}

// The thread of a group and what NCCL has opened go with the group. No call waits for that.
TEST(CudaMultinodeGroup, IsGivenBackInOrder) {
  expect_well(on_machines("ab", [](const std::shared_ptr<Group>& group) {
    std::optional<support::Footprint> before;
    for (int cycle = 0; cycle < 3; ++cycle) {
      if (cycle == 1) before = support::Footprint::settled();
      const auto part = group->split(0, 0);
      compare(*part, {Collective::allreduce, DType::f32, Op::sum, 100});
      part->finalize(20'000);
    }
    EXPECT_TRUE(support::eventually([&] {
      return support::Footprint::now().has_no_more_than(*before);
    })) << support::Footprint::now()
        << ", before: " << *before;
  }));
}

// The fake NCCL ends a process with status 86 if the process exits
// while a thread is in NCCL. UCX is left out because LeakSanitizer,
// which looks at the process at its end, does not survive UCX.
TEST(CudaMultinodeGroup, AProcessThatEndsWaitsForNccl) {
  const support::TemporaryDirectory where;
  const Body body = [](const std::shared_ptr<Group>& group) {
    compare(*group, {Collective::allreduce, DType::f32, Op::sum, 100});
  };

  const auto without_ucx = [](int) {
    setenv("FAKE_NCCL", "slow", 1);
    setenv("SYMM_UCX", "/nowhere", 1);
  };

  const auto ranks = start("ab", body, {.before = without_ucx, .exits = true}, where.path());
  for (support::Process& rank : *ranks) {
    EXPECT_EQ(rank.wait(60'000), 0);
  }
}

// ---- failures

TEST(CudaMultinodeFailure, OfCreationIsOneSentence) {
  const auto all_say = [](const char* script, const std::vector<std::string>& words,
                           const char* library = FAKE_NCCL) {
    SCOPED_TRACE(script);
    expect_all(on_machines("ab", [](const std::shared_ptr<Group>&) { return "created"; },
                   {.before =
                           [&](int rank) {
                             if (rank == 1 || script[0] == '*') setenv("FAKE_NCCL", script, 1);
                             if (rank == 1) setenv("SYMM_NCCL", library, 1);
                           },
                       .change = [](GroupConfig& config) { config.create_timeout_ms = 3'000; }}),
        words);
  };

  all_say(
      "", {"unavailable", "rank 1", "/nowhere/libnccl.so.2", "SYMM_NCCL"}, "/nowhere/libnccl.so.2");
  all_say("old", {"unavailable", "rank 1", "nccl 2.17.3", "NCCL 2.18"});
  all_say("odd", {"ranks disagree", "engine: rank", "nccl 2.29.1", "nccl 2.27.3"});
  all_say("*refuses", {"ncclGetUniqueId", "internal error", "rank 0"});
  all_say("*absent", {"timed out"});
}

TEST(CudaMultinodeFailure, OfRanksThatDifferNamesBothCalls) {
  const Body body = [](const std::shared_ptr<Group>& group) {
    // The operand is static: some of the calls may still run when this function has returned.
    static std::vector<float> data(6);
    for (const size_t count : {size_t{5}, size_t{6}}) {
      CollectiveCall call =
          call_of(Collective::allreduce, data.data(), group->rank() == 2 ? count : 5, DType::f32);
      finish(*group, call);
    }
  };

  const Setting checks{.change = [](GroupConfig& config) { config.check = true; }};
  expect_all(on_machines("aab", body, checks),
      {"makes allreduce(f32, sum, count 5), rank 2 makes allreduce(f32, sum, count 6)"});
}

// Waits until the group has failed, and returns its failure.
std::string failure_of(Group& group) {
  EXPECT_TRUE(support::eventually([&] { return group.revocation().revoked(); }));
  return support::outcome_of([&] {
    group.require_usable();
    return "";
  });
}

// Counts on the device are refused if a receiver expects another number than the sender
// sends, if they do not fit the capacity, or if ranks name different capacities.
TEST(CudaMultinodeFailure, OfCountsOnTheDeviceNamesThem) {
  const auto exchange = [](size_t sends, size_t expects, size_t capacity) {
    return [=](const std::shared_ptr<Group>& group) {
      static int32_t send[8];
      static int32_t recv[8];
      static size_t gives[2];
      static size_t takes[2];
      const bool odd = group->rank() == 1;
      std::fill_n(gives, 2, 2);
      std::fill_n(takes, 2, 2);
      if (odd) {
        gives[0] = sends;
        takes[0] = expects;
      }

      CollectiveCall call = call_of(Collective::alltoallv, recv, 0, DType::i32);
      call.send = send;
      finish(*group, call,
          {.send_counts = gives,
              .recv_counts = takes,
              .capacities = Capacities{odd ? capacity : 8, 8}});
      return failure_of(*group);
    };
  };

  expect_all(on_machines("ab", exchange(3, 2, 8)),
      {"alltoallv: rank 1 sends 3 elements to rank 0, which expects 2"});
  expect_all(on_machines("ab", exchange(2, 1, 8)),
      {"alltoallv: rank 0 sends 2 elements to rank 1, which expects 1"});
  expect_all(on_machines("ab", exchange(9, 2, 8)),
      {"alltoallv: send_counts[0]: 9 elements", "send_capacity 8"});
  expect_all(
      on_machines("ab", exchange(2, 2, 9)), {"rank 0 makes alltoallv(i32, send_capacity 8), rank 1 "
                                             "makes alltoallv(i32, send_capacity 9)"});
}

// Repeats a call until the group has failed, and returns the failure.
std::string work_until_failure(Group& group, uint64_t timeout_ms) {
  // The operand is static: some of the calls may still run when this function has returned.
  static float data = 1;
  CollectiveCall call = call_of(Collective::allreduce, &data, 1, DType::f32);
  call.timeout_ms = timeout_ms;
  return support::outcome_of([&]() -> std::string {
    for (;;) {
      run_collective(group, call);
      group.synchronize(nullptr, 60'000);
    }
  });
}

TEST(CudaMultinodeFailure, AKilledRankIsNamedAndNcclLetsGo) {
  const Body body = [](const std::shared_ptr<Group>& group) {
    support::tell();
    const std::string said = work_until_failure(*group, 20'000);
    group->transport().let_go();
    // The streams run empty, so the context is still usable.
    EXPECT_TRUE(support::eventually([] { return fake_cuda::idle(nullptr); }));
    return said;
  };
  const support::TemporaryDirectory where;
  const auto ranks = start("aabb", body, {}, where.path());
  for (support::Process& rank : *ranks) {
    ASSERT_TRUE(rank.told()) << rank.said();
  }

  (*ranks)[2].kill(SIGKILL);
  for (const int rank : {0, 1, 3}) {
    expect_all({(*ranks)[rank].result()}, {"peer failed: ", "rank 2"});
  }
}

TEST(CudaMultinodeFailure, ARankThatDoesNotComeIsWaitedForUntilTheDeadline) {
  const Body body = [](const std::shared_ptr<Group>& group) {
    const CallTag tagged("step 7");
    return group->rank() == 0 ? work_until_failure(*group, 300) : failure_of(*group);
  };
  expect_all(on_machines("ab", body),
      {"timed out: ", "allreduce: over nccl 2.27.3, not all ranks came within 300 ms",
          "; the call of rank 0 has the tag \"step 7\""});
}

TEST(CudaMultinodeFailure, ARankThatHasLeftIsNamed) {
  const Body body = [](const std::shared_ptr<Group>& group) {
    return group->rank() == 0 ? work_until_failure(*group, 20'000) : std::string();
  };
  expect_all({on_machines("ab", body, {.finalizes = false})[0]},
      {"peer failed: allreduce: rank 1 (pid", "has left the group"});
}

// An error of NCCL is met either by the call or by the thread that watches NCCL
// meanwhile. Both give the same report.
TEST(CudaMultinodeFailure, NcclsErrorsAreTold) {
  const Body body = [](const std::shared_ptr<Group>& group) {
    return work_until_failure(*group, 20'000);
  };
  const auto breaks = [](int rank) {
    if (rank == 1) setenv("FAKE_NCCL", "breaks", 1);
  };
  expect_all(on_machines("ab", body, {.before = breaks}),
      {"peer failed: ", "nccl 2.27.3: nccl", ": remote process exited: fake"});
}

// The group is aborted while its abort of NCCL never returns. No call waits for NCCL.
TEST(CudaMultinodeFailure, AnAbortThatDoesNotReturnIsGivenUp) {
  static std::atomic<bool> given_up;
  given_up = false;
  const auto listen = [](void*, int32_t, const char* message) {
    if (std::string_view(message).find("ncclCommAbort has not returned") !=
        std::string_view::npos) {
      given_up = true;
    }
  };
  const auto stuck = [&](int) {
    setenv("FAKE_NCCL", "lame stuck", 1);
    log::add_listener(listen, nullptr, log::Level::warning);
  };

  const Body body = [](const std::shared_ptr<Group>& group) {
    float data = 1;
    CollectiveCall call = call_of(Collective::allreduce, &data, 1, DType::f32);
    call.timeout_ms = 20'000;
    run_collective(*group, call);
    if (group->rank() == 0) group->fail({Status::aborted, 0, 0, "enough"});

    const std::string said = failure_of(*group);
    group->transport().let_go();
    EXPECT_TRUE(support::eventually([&] { return given_up.load(); }));
    return said;
  };
  expect_all(on_machines("ab", body, {.before = stuck}), {"aborted: enough"});
}
}  // namespace
}  // namespace symm
