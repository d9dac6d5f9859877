#include "kernels/cuda/plan.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/cuda/control.hpp"
#include "kernels/collective.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/layout.hpp"
#include "kernels/cuda/occupancy.hpp"
#include "kernels/cuda/plan_capabilities.hpp"
#include "kernels/cuda/plan_forms.hpp"
#include "kernels/cuda/tuning.hpp"
#include "kernels/types.hpp"
#include "tests/support/combinations.hpp"
#include "tests/support/test.hpp"

namespace symm::cuda {
namespace {
using support::for_each_combination;

Tuning default_tuning(int size) {
  return tuning_of(
      PlanTable::built_in().values(BackendKind::cuda, size, [] { return std::string(); }));
}

PlanInput input_of(Collective collective, DType dtype, size_t count, int size) {
  PlanInput input;
  input.collective = collective;
  input.dtype = dtype;
  input.count = count;
  input.size = size;
  input.is_large = size > kSmallRanks;
  input.max_blocks = 264;
  return input;
}

// A part of a group has fewer ranks, whose own
// tuning may want larger stages than the whole has.
TEST(CudaStages, OfAPartFitIntoThoseOfTheWhole) {
  for (int size = 1; size <= kMaxRanks; ++size) {
    const Tuning whole = default_tuning(size);
    const Layout lender = layout_of(size, whole);
    for (int part = 1; part <= size; ++part) {
      const Layout layout =
          layout_of(part, within_stages(part, default_tuning(part), lender, whole), &lender);
      EXPECT_LE(2 * layout.stage[1] - layout.stage[0], lender.wide);
    }
  }
}

// A reduce by owners: the last cell of a slot is for the token, and where there are several chunks,
// a chunk has at least three rounds.
void expect_reduce_by_owners_fits(
    const PlanInput& input, const Plan& chosen, const Layout& layout) {
  const uint64_t packs = (input.unit() + kPack - 1) / kPack;
  const auto owners = static_cast<uint64_t>(input.size - 1);
  const uint64_t of_owner = (packs + owners - 1) / owners;
  const auto at_once = static_cast<uint64_t>(chosen.blocks) * static_cast<uint64_t>(chosen.threads);
  const uint64_t rounds = (of_owner + at_once - 1) / at_once;

  ASSERT_LT((rounds + chosen.tiles - 1) / chosen.tiles * at_once, layout.one_shot_slot / kPack);
  ASSERT_TRUE(chosen.tiles == 1 || rounds / chosen.tiles >= 3) << rounds << " in " << chosen.tiles;
}

// The chunks of the pipeline fit into the stages, and the tiles cover the message.
void expect_pipeline_fits(
    const PlanInput& input, const Plan& chosen, const Tuning& tuning, const Layout& layout) {
  const auto blocks = static_cast<uint64_t>(chosen.blocks);
  ASSERT_LE(blocks * kChunkSlots * static_cast<uint64_t>(input.size - 1) * chosen.tile,
      layout.stage[1] - layout.stage[0]);
  ASSERT_LE(chosen.blocks, std::max(input.max_blocks, 3));

  const CollectiveTraits what = traits(input.collective);
  const bool is_cut = (what.cut_into_slices || what.of_prefix) && !chosen.direct;
  const int owners = input.size - (chosen.spares_root ? 1 : 0);
  const auto parts = static_cast<uint64_t>(is_cut ? owners : 1);
  ASSERT_EQ(chosen.tile % kPack, 0U);
  ASSERT_GE(parts * blocks * chosen.tiles * chosen.tile, input.unit());
  ASSERT_LE(chosen.blocks, tuning.work_groups);
}

// The message fits into the scratch that the algorithm uses, and the tiles cover the message.
void expect_message_fits(
    const PlanInput& input, const Plan& chosen, const Tuning& tuning, const Layout& layout) {
  const uint64_t unit = input.unit();
  const uint64_t packs = (unit + kPack - 1) / kPack;

  switch (chosen.algorithm) {
    // The last cell is for the token.
    case Algorithm::ll: ASSERT_LT(packs * 32, layout.ll_slot); break;
    case Algorithm::one_shot:
      ASSERT_LE(std::min(packs * kPack, chosen.part), layout.one_shot_slot);
      break;
    case Algorithm::marked: {
      const uint64_t tiles = (std::min(unit, chosen.part) + kMarkedTile - 1) / kMarkedTile;
      const bool is_passed_on = kernel_name(input, chosen) != "symm_marked";
      const uint64_t owners = is_passed_on ? static_cast<uint64_t>(input.size - 1) : 1;
      ASSERT_LE((tiles + owners - 1) / owners * kMarkedCells + kPack, layout.one_shot_slot);
      break;
    }
    case Algorithm::two_shot:
      if (input.collective == Collective::reduce) {
        return expect_reduce_by_owners_fits(input, chosen, layout);
      }
      ASSERT_EQ(chosen.tile, layout.two_shot_slot * static_cast<uint64_t>(input.size));
      ASSERT_EQ(chosen.tiles, (unit + chosen.tile - 1) / chosen.tile);
      break;
    case Algorithm::two_shot_staged: return expect_pipeline_fits(input, chosen, tuning, layout);
    case Algorithm::hybrid_cube_mesh:
    case Algorithm::multimem_one_shot:
    case Algorithm::multimem_two_shot:
    case Algorithm::chain:
    case Algorithm::bruck:
    case Algorithm::hierarchical:
    case Algorithm::copy_engine:
    case Algorithm::automatic: FAIL();
  }
}

// The launch leaves room on the device for a kernel of another rank. The pipeline, whose limit is
// that of its work groups, is checked by expect_pipeline_fits().
void expect_launch_fits(const PlanInput& input, const Plan& chosen) {
  if (chosen.algorithm == Algorithm::two_shot_staged) return;

  // Two blocks of these kernels fit onto a multiprocessor.
  const bool is_small = (chosen.algorithm == Algorithm::one_shot && input.size <= 4) ||
                        chosen.algorithm == Algorithm::marked;
  ASSERT_GE(chosen.blocks, 1);
  ASSERT_LE(
      chosen.blocks * chosen.threads, std::max(input.max_blocks / 2, 1) * (is_small ? 1024 : 512));
  ASSERT_LE(chosen.blocks, kMaxBlocks);
}

// The most blocks that a device lets a kernel have.
constexpr std::array kBlocks = {1, 2, 7, 33, 264};

// Counts from one to some thousand million, each three times the one before and one more.
std::vector<size_t> rising_counts() {
  std::vector<size_t> counts;
  for (size_t count = 1; count < size_t{1} << 32; count = count * 3 + 1)
    counts.push_back(count);
  return counts;
}

// Plans with scratch of some bytes at most.
class CudaPlan : public testing::TestWithParam<uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Scratch, CudaPlan, testing::Values(UINT64_MAX, 80 << 20, 5 << 20));

// Sizes of groups: all small ones, and some of the large ones.
std::vector<int> some_sizes() {
  std::vector<int> sizes;
  for (int size = 2; size <= kSmallRanks; ++size) {
    sizes.push_back(size);
  }
  sizes.insert(sizes.end(), {17, 32, 33, 64, kMaxRanks});
  return sizes;
}

TEST_P(CudaPlan, FitsDeviceAndScratch) {
  for (const int size : some_sizes()) {
    const Tuning tuning = within_scratch(size, default_tuning(size), GetParam());
    const Layout layout = layout_of(size, tuning);
    ASSERT_LE(scratch_bytes(layout), GetParam());

    const auto expect_fits = [&](const PlanInput& input) {
      const Plan chosen = plan(input, tuning);
      SCOPED_TRACE(std::string(collective_name(input.collective)) + " " +
                   std::to_string(input.unit()) + " bytes, " + std::to_string(size) + " ranks");
      ASSERT_LE((input.unit() - 1) / chosen.part, 7U) << "launches but the first";
      expect_message_fits(input, chosen, tuning, layout);
      expect_launch_fits(input, chosen);
    };

    for_each_combination(std::tuple(kBlocks,
                             std::array{Collective::allreduce, Collective::reduce_scatter,
                                 Collective::allgather, Collective::broadcast, Collective::reduce,
                                 Collective::alltoall, Collective::scan, Collective::exscan},
                             std::array{DType::bf16, DType::i8, DType::f64}, rising_counts()),
        [&](int max_blocks, Collective collective, DType dtype, size_t count) {
          PlanInput input = input_of(collective, dtype, count, size);
          input.max_blocks = max_blocks;
          expect_fits(input);
        });
    if (HasFatalFailure()) return;
  }
}

// The device puts blocks where it likes, and a large block has room on an empty multiprocessor
// only. So on a device with several ranks there must be one, though each block of all other
// groups' kernels were on a multiprocessor of its own.
TEST(CudaPlans, LeaveAMultiprocessorEmptyWhereRanksShareADevice) {
  constexpr int kMultiprocessors = 132;
  for (int size = 2; size <= kMaxRanks; ++size) {
    const Tuning tuning = default_tuning(size);
    // A device has fewer multiprocessors than three groups of more ranks need.
    for (int on_one = 2; on_one <= std::min(size, kSmallRanks); ++on_one) {
      const int at_once = on_one * tuning.groups;
      const auto expect_room = [&](Collective collective, DType dtype, size_t count) {
        PlanInput input = input_of(collective, dtype, count, size);
        input.max_blocks = max_blocks_of(kMultiprocessors, size, on_one, tuning);
        input.shares_device = true;
        if (collective == Collective::allreduce_rmsnorm) input.root = 1024;
        const Plan chosen = plan(input, tuning);
        ASSERT_LT((at_once - 1) * chosen.blocks, kMultiprocessors)
            << collective_name(collective) << ", " << count << " elements, " << size << " ranks, "
            << on_one << " on a device, " << algorithm_name(chosen.algorithm);
      };

      for_each_combination(
          std::tuple(
              std::array{Collective::allreduce, Collective::reduce_scatter, Collective::allgather,
                  Collective::broadcast, Collective::reduce, Collective::alltoall,
                  Collective::allgatherv, Collective::alltoallv, Collective::reduce_scatterv},
              std::array{DType::bf16, DType::i8, DType::f64}, rising_counts()),
          expect_room);
      for (const size_t rows : {1, 7, 64, 1000}) {
        expect_room(Collective::allreduce_rmsnorm, DType::bf16, rows * 1024);
      }
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CudaPlans, EnginesCopyLargeMessagesAtTheSameOffsets) {
  for (const int size : {2, 4}) {
    const Tuning tuning = default_tuning(size);
    for (const Collective collective : {Collective::allreduce, Collective::allgather,
             Collective::alltoall, Collective::broadcast}) {
      const bool can = size == 2 || collective != Collective::broadcast;
      const bool sums = collective == Collective::allreduce;
      const uint64_t least = tuning.engine_min * (sums ? 4 * static_cast<uint64_t>(size) : 1);

      PlanInput input = input_of(collective, DType::i8, least, size);
      EXPECT_NE(plan(input, tuning).algorithm, Algorithm::copy_engine) << "without a promise";

      input.same_offsets = true;
      EXPECT_EQ(may_go_by_engine(input, tuning), can);
      EXPECT_EQ(plan(input, tuning).algorithm == Algorithm::copy_engine, can);

      --input.count;
      EXPECT_FALSE(may_go_by_engine(input, tuning) ||
                   plan(input, tuning).algorithm == Algorithm::copy_engine);

      input.algorithm = Algorithm::copy_engine;
      EXPECT_TRUE(may_go_by_engine(input, tuning));
      EXPECT_EQ(refuse(input, tuning).empty(), !sums) << "no multiple of the ranks";

      input.why_not = "recv is elsewhere";
      input.count = least;
      EXPECT_NE(refuse(input, tuning).find("recv is elsewhere"), std::string::npos);

      input.algorithm = Algorithm::automatic;
      EXPECT_NE(plan(input, tuning).algorithm, Algorithm::copy_engine);
    }
  }
}

TEST(CudaPlans, FewBlocksSendLessAtOnce) {
  const Tuning tuning = default_tuning(2);
  PlanInput input = input_of(Collective::allgather, DType::bf16, 0, 2);
  input.same_offsets = true;

  const auto chosen = [&](size_t bytes, int max_blocks) {
    input.count = bytes / size_of(input.dtype);
    input.max_blocks = max_blocks;
    return plan(input, tuning).algorithm;
  };

  EXPECT_EQ(chosen(tuning.marked_max, 264), Algorithm::marked);
  EXPECT_EQ(chosen(tuning.marked_max, tuning.work_groups / 4), Algorithm::two_shot_staged);
  EXPECT_EQ(chosen(tuning.marked_max / 4, tuning.work_groups / 4), Algorithm::marked);
  EXPECT_EQ(chosen(tuning.engine_min / 2, 264), Algorithm::two_shot_staged);
  EXPECT_EQ(chosen(tuning.engine_min / 2, tuning.work_groups / 4), Algorithm::copy_engine);

  input.algorithm = Algorithm::marked;
  EXPECT_EQ(chosen(tuning.marked_max, 1), Algorithm::marked) << "forced";

  input.algorithm = Algorithm::automatic;
  input.collective = Collective::allreduce;
  EXPECT_EQ(chosen(tuning.one_shot_max, 264), Algorithm::one_shot);
  EXPECT_EQ(chosen(tuning.one_shot_max, tuning.work_groups / 4), Algorithm::two_shot_staged);
  EXPECT_EQ(chosen(8 * tuning.engine_min, 264), Algorithm::copy_engine);
  EXPECT_EQ(chosen(8 * tuning.engine_min, tuning.work_groups / 4), Algorithm::two_shot_staged);
}

TEST(CudaPlans, IntegersAndDoublesAreNeverPushed) {
  const Tuning tuning = default_tuning(4);
  for (const DType dtype : {DType::i8, DType::u8, DType::i16, DType::u16, DType::boolean,
           DType::i32, DType::u32, DType::i64, DType::u64, DType::f64}) {
    for (size_t count = 1; count < 10'000'000; count *= 7) {
      const Algorithm chosen =
          plan(input_of(Collective::allreduce, dtype, count, 4), tuning).algorithm;
      EXPECT_TRUE(chosen == Algorithm::ll || chosen == Algorithm::two_shot_staged)
          << dtype_name(dtype) << " " << count;
    }

    PlanInput forced = input_of(Collective::allreduce, dtype, 8, 4);
    forced.algorithm = Algorithm::one_shot;
    EXPECT_NE(refuse(forced, tuning), "");
    forced.algorithm = Algorithm::two_shot;
    EXPECT_NE(refuse(forced, tuning), "");
    forced.algorithm = Algorithm::ll;
    EXPECT_EQ(refuse(forced, tuning), "");
  }
}

TEST(CudaPlans, MultimemOnlyWhereForcedAndPossible) {
  const Tuning tuning = default_tuning(4);
  for (const Algorithm algorithm : {Algorithm::multimem_one_shot, Algorithm::multimem_two_shot}) {
    const auto expect_multimem = [&](DType dtype, size_t count, int max_blocks) {
      PlanInput input = input_of(Collective::allreduce, dtype, count, 4);
      input.max_blocks = max_blocks;
      ASSERT_FALSE(is_multimem(plan(input, tuning).algorithm));

      input.algorithm = algorithm;
      ASSERT_EQ(refuse(input, tuning), "");

      const Plan chosen = plan(input, tuning);
      ASSERT_EQ(chosen.algorithm, algorithm);
      ASSERT_EQ(chosen.threads, 512);
      ASSERT_GE(chosen.blocks, 1);
      ASSERT_LE(chosen.blocks, std::min(std::max(max_blocks / 2, 1), kMultimemBlocks));
      ASSERT_LT(explain(input, chosen, tuning).size(), 192U);
    };

    for_each_combination(
        std::tuple(std::array{DType::bf16, DType::f16, DType::f32}, rising_counts(), kBlocks),
        expect_multimem);
    if (HasFatalFailure()) return;

    PlanInput input = input_of(Collective::allreduce, DType::f16, 100, 4);
    input.algorithm = algorithm;
    EXPECT_EQ(kernel_name(input, plan(input, tuning)),
        std::string("symm_") + algorithm_name(algorithm) + "_f16");

    input.why_not = "send is elsewhere";
    EXPECT_NE(refuse(input, tuning).find("send is elsewhere"), std::string::npos);

    input.why_not = "";
    for (const Op op : {Op::avg, Op::min, Op::max, Op::prod}) {
      input.op = op;
      EXPECT_NE(refuse(input, tuning), "");
    }

    input.op = Op::sum;
    for (const DType dtype : {DType::f64, DType::i32, DType::f8e4m3}) {
      input.dtype = dtype;
      EXPECT_NE(refuse(input, tuning), "");
    }

    input.dtype = DType::f32;
    input.collective = Collective::reduce_scatter;
    EXPECT_NE(refuse(input, tuning), "");

    input.size = 1;
    EXPECT_EQ(refuse(input, tuning), "");
  }
}

// No launch has more blocks than the call allows, whatever the algorithm, and reasons say so.
// Messages still fit into scratch.
TEST(CudaPlans, HaveNoMoreBlocksThanACallAllows) {
  for (const int size : {2, 3, 4, 8, 16}) {
    const Tuning tuning = default_tuning(size);
    const Layout layout = layout_of(size, tuning);

    const auto expect_limited = [&](Collective collective, DType dtype, size_t count, int limit) {
      PlanInput input = input_of(collective, dtype, count, size);
      input.has_clusters = true;
      if (collective == Collective::allreduce_rmsnorm) {
        input.root = 1024;
        input.count = count % 1000 * 1024;
      }
      for (int value = 0; value <= static_cast<int>(Algorithm::copy_engine); ++value) {
        input.algorithm = static_cast<Algorithm>(value);
        input.block_limit = 0;
        if (!is_valid(input.algorithm) || !refuse(input, tuning).empty()) continue;

        input.block_limit = static_cast<uint8_t>(limit);
        ASSERT_EQ(refuse(input, tuning), "");
        const Plan chosen = plan(input, tuning);
        SCOPED_TRACE(std::string(collective_name(collective)) + " " + std::to_string(input.unit()) +
                     " bytes, " + algorithm_name(chosen.algorithm) + ", " + std::to_string(limit));
        if (chosen.form == nullptr) continue;

        ASSERT_LE(chosen.blocks, limit);
        ASSERT_TRUE(chosen.blocks > 0 || chosen.algorithm == Algorithm::copy_engine);
        ASSERT_EQ(chosen.blocks % chosen.cluster, 0);
        const std::string why = explain(input, chosen, tuning);
        ASSERT_NE(why.find("at most " + std::to_string(limit) + " blocks by max_blocks"),
            std::string::npos)
            << why;
        ASSERT_LT(why.size(), 192U);
        if (value == 0 && !chosen.in_pieces && collective != Collective::allreduce_rmsnorm) {
          expect_message_fits(input, chosen, tuning, layout);
        }
      }
    };

    for_each_combination(
        std::tuple(
            std::array{Collective::allreduce, Collective::reduce_scatter, Collective::allgather,
                Collective::broadcast, Collective::reduce, Collective::alltoall,
                Collective::alltoallv, Collective::allgatherv, Collective::reduce_scatterv,
                Collective::reduce_scatter_rows, Collective::gatherv, Collective::scatterv,
                Collective::allreduce_rmsnorm, Collective::scan},
            std::array{DType::bf16, DType::f32}, rising_counts(), std::array{1, 2, 3, 5, 16, 200}),
        expect_limited);
    if (HasFatalFailure()) return;
  }
}

TEST(CudaPlans, ALimitThatIsNotReachedChangesNoAlgorithm) {
  const Tuning tuning = default_tuning(4);
  PlanInput input = input_of(Collective::allreduce, DType::bf16, 512, 4);
  const Plan usual = plan(input, tuning);
  input.block_limit = CallSignature::kMostBlockLimit;
  const Plan limited = plan(input, tuning);
  EXPECT_EQ(limited.form, usual.form);
  EXPECT_EQ(limited.blocks, usual.blocks);

  // Few blocks send less at once, so that another algorithm takes over.
  input.count = tuning.two_shot_max / 2;
  const Plan large = plan(input, tuning);
  input.block_limit = 1;
  EXPECT_NE(plan(input, tuning).algorithm, large.algorithm);
}

// The mesh is taken where the devices are one, for as much as fits into the slots of LL, and by
// force on any 8 ranks.
TEST(CudaPlans, HybridCubeMesh) {
  const Tuning tuning = default_tuning(8);
  const Layout layout = layout_of(8, tuning);
  const auto expect_mesh = [&](DType dtype, size_t count, int max_blocks, bool is_cube_mesh) {
    PlanInput input = input_of(Collective::allreduce, dtype, count, 8);
    input.max_blocks = max_blocks;
    input.is_cube_mesh = is_cube_mesh;
    const bool fits = input.unit() <= tuning.ll_max;
    const bool is_chosen = plan(input, tuning).algorithm == Algorithm::hybrid_cube_mesh;
    ASSERT_EQ(is_chosen, fits && is_cube_mesh) << input.unit();

    input.algorithm = is_chosen ? Algorithm::automatic : Algorithm::hybrid_cube_mesh;
    ASSERT_EQ(refuse(input, tuning).empty(), fits) << refuse(input, tuning);
    if (!fits) return;

    const Plan chosen = plan(input, tuning);
    ASSERT_EQ(chosen.algorithm, Algorithm::hybrid_cube_mesh);
    ASSERT_EQ(kernel_name(input, chosen), "symm_hybrid_cube_mesh");
    ASSERT_LE(chosen.threads, 256) << "the kernel's launch bounds";
    expect_launch_fits(input, chosen);
    ASSERT_LE((input.unit() + kPack - 1) / kPack * 2 * kPack, layout.ll_slot);

    const std::string why = explain(input, chosen, tuning);
    const char* words = is_cube_mesh ? "in two hops along the links of the hybrid cube mesh"
                                     : "forced: in two hops along the links of quads 0-3 and 4-7";
    ASSERT_EQ(why.find(words), 0U) << why;
    ASSERT_LT(why.size(), 192U);
  };
  for_each_combination(std::tuple(std::array{DType::bf16, DType::i8, DType::f64}, rising_counts(),
                           kBlocks, std::array{false, true}),
      expect_mesh);
}

TEST(CudaPlans, HybridCubeMeshIsRefusedWithTheReason) {
  const Tuning tuning = default_tuning(8);
  const auto expect_refusal = [&](PlanInput input, const std::string& words) {
    input.algorithm = Algorithm::hybrid_cube_mesh;
    const std::string refusal = refuse(input, tuning);
    EXPECT_NE(refusal.find("algorithm hybrid_cube_mesh " + words), std::string::npos) << refusal;
  };

  for (const Collective collective : {Collective::reduce_scatter, Collective::allgather,
           Collective::broadcast, Collective::reduce, Collective::alltoall, Collective::allgatherv,
           Collective::reduce_scatterv, Collective::allreduce_rmsnorm}) {
    PlanInput input = input_of(collective, DType::f32, 1024, 8);
    if (collective == Collective::allreduce_rmsnorm) input.root = 1024;
    const Algorithm usual = plan(input, tuning).algorithm;
    input.is_cube_mesh = true;
    EXPECT_EQ(plan(input, tuning).algorithm, usual);
    expect_refusal(input, std::string("does allreduce, not ") + collective_name(collective));
  }

  for (const int size : {2, 4, 7, 9, 16}) {
    expect_refusal(input_of(Collective::allreduce, DType::f32, 100, size),
        "needs 8 ranks, not " + std::to_string(size));
  }

  expect_refusal(input_of(Collective::allreduce, DType::u8, tuning.ll_max + 1, 8),
      "carries at most " + std::to_string(tuning.ll_max) + " bytes");
}

// A group of few ranks can be made a large one by its plan table. Its number of ranks is not the
// reason then.
TEST(CudaPlans, OfLargeGroupsOfFewRanksAreRefusedForBeingLarge) {
  PlanInput input = input_of(Collective::allreduce, DType::f32, 100, 8);
  input.is_large = true;
  input.algorithm = Algorithm::hybrid_cube_mesh;
  EXPECT_EQ(refuse(input, default_tuning(8)),
      "algorithm hybrid_cube_mesh is of groups of up to 16 ranks");

  PlanInput norm = input_of(Collective::allreduce_rmsnorm, DType::f32, 1024, 4);
  norm.root = 1024;
  norm.has_clusters = true;
  std::string why;
  EXPECT_TRUE(normalises(norm, &why)) << why;
  norm.is_large = true;
  EXPECT_FALSE(normalises(norm, &why));
  EXPECT_EQ(why, "is of groups of up to 16 ranks");
}

// With two ranks there is no rank to which a broadcast could be passed on. With more
// ranks the extra load of the root's link decides.
TEST(CudaPlans, RootsSendDirectlyOrOwnNoSlice) {
  const auto is_flat = [](Collective collective, int size, size_t bytes) {
    PlanInput input = input_of(collective, DType::u8, bytes, size);
    input.algorithm = Algorithm::two_shot_staged;
    return plan(input, default_tuning(size)).direct;
  };

  EXPECT_TRUE(is_flat(Collective::broadcast, 2, size_t{1} << 32));
  const uint64_t most = default_tuning(4).direct_max;
  EXPECT_TRUE(is_flat(Collective::broadcast, 4, most / 2));
  EXPECT_FALSE(is_flat(Collective::broadcast, 4, most / 2 + 1));
  EXPECT_FALSE(is_flat(Collective::allgather, 2, 1));

  const auto spares_root = [](int size, size_t megabytes) {
    return plan(
        input_of(Collective::reduce, DType::u8, megabytes << 20, size), default_tuning(size))
        .spares_root;
  };

  EXPECT_TRUE(spares_root(3, 17));
  EXPECT_FALSE(spares_root(3, 16));
  EXPECT_FALSE(spares_root(2, 1000));
}

// Groups load the kernels of kernel_names() when they are made, and no kernel later.
TEST(CudaPlans, EveryKernelOfTheTableIsLoaded) {
  const auto expect_loaded = [](int size, const KernelForm& form) {
    if (form.kernel.name == nullptr) return;

    const std::vector<std::string> loaded =
        kernel_names(input_of({}, {}, 0, size), form.kernel.multicast);
    const auto expect_kernel = [&](size_t number, DType dtype) {
      const auto collective = static_cast<Collective>(number);
      const bool normalises = collective == Collective::allreduce_rmsnorm;
      PlanInput input = input_of(collective, dtype, 1024, size);
      if (normalises) input.root = 1024;
      if ((normalises && !is_norm_type(dtype)) || !form.does(input, nullptr)) return;

      Plan chosen;
      chosen.form = &form;
      const std::string name = kernel_name(input, chosen);
      EXPECT_TRUE(std::find(loaded.begin(), loaded.end(), name) != loaded.end())
          << name << " does " << collective_name(collective) << " of " << size
          << " ranks, and is not loaded: kernel_names() of kernels/cuda/plan.cpp lacks that "
             "collective";
    };
    for_each_combination(std::tuple(std::views::iota(size_t{0}, kCollectives),
                             std::array{DType::f16, DType::bf16, DType::f32, DType::i32}),
        expect_kernel);
  };
  for_each_combination(
      std::tuple(std::views::iota(2, kMaxRanks + 1), kernel_forms()), expect_loaded);
}

PlanInput input(Algorithm algorithm, int size, DType dtype, Op op = Op::avg, size_t count = 1,
    Collective collective = Collective::allreduce) {
  PlanInput made = input_of(collective, dtype, count, size);
  made.op = op;
  made.algorithm = algorithm;
  return made;
}

std::string kernel_of(const PlanInput& made) {
  return kernel_name(made, plan(made, default_tuning(made.size)));
}

TEST(CudaPlans, NamesOfKernels) {
  using enum Algorithm;
  using enum DType;
  constexpr size_t kMany = size_t{1} << 20;
  EXPECT_EQ(kernel_of(input(one_shot, 8, bf16, Op::sum)), "symm_one_shot_bf16_8");
  EXPECT_EQ(kernel_of(input(two_shot, 8, bf16, Op::max)), "symm_two_shot_any_8");
  EXPECT_EQ(kernel_of(input(two_shot_staged, 5, bf16)), "symm_pipeline_bf16_5");
  EXPECT_EQ(kernel_of(input(ll, 5, bf16)), "symm_ll_reduce_8");
  // Sums of complex numbers are sums of real ones; products and pairs have the general kernel.
  EXPECT_EQ(kernel_of(input(two_shot_staged, 5, c64, Op::sum)), "symm_pipeline_f32_5");
  EXPECT_EQ(kernel_of(input(two_shot_staged, 5, c64)), "symm_pipeline_f32_5");
  EXPECT_EQ(kernel_of(input(two_shot_staged, 5, c64, Op::prod)), "symm_pipeline_any_8");
  EXPECT_EQ(kernel_of(input(two_shot_staged, 5, c128, Op::sum)), "symm_pipeline_any_8");
  EXPECT_EQ(kernel_of(input(two_shot_staged, 5, f64_i64, Op::maxloc)), "symm_pipeline_any_8");
  EXPECT_EQ(kernel_of(input(two_shot_staged, 2, bf16)), "symm_pipeline_bf16_2");
  EXPECT_EQ(kernel_of(input(one_shot, 2, bf16)), "symm_one_shot_bf16_2");

  for (const Algorithm algorithm : {one_shot, automatic}) {
    EXPECT_EQ(kernel_of(input(algorithm, 2, bf16, Op::avg, 8 * kMany)), "symm_one_shot_ahead_bf16");
  }

  // This reduce takes four launches.
  const PlanInput reduce = input(automatic, 2, bf16, Op::avg, 32 * kMany, Collective::reduce);
  EXPECT_EQ(kernel_of(reduce), "symm_one_shot_ahead_bf16");
  EXPECT_EQ(plan(reduce, default_tuning(2)).part, reduce.unit() / 4);

  for (int size = 2; size <= kMaxRanks; ++size) {
    EXPECT_LE(scratch_bytes(layout_of(size, default_tuning(size))), 80'000'000U) << size;
  }

  const std::string refused =
      refuse(input(one_shot, 2, bf16, Op::avg, 32 * kMany), default_tuning(2));
  EXPECT_NE(refused.find("carries at most 16777216 bytes"), std::string::npos);

  // Integers are never pushed.
  EXPECT_EQ(kernel_of(input(automatic, 2, i32, Op::avg, kMany)), "symm_pipeline_any_2");
  EXPECT_EQ(kernel_of(input(two_shot_staged, 9, i32, Op::avg, 2 * kMany)), "symm_pipeline_any_16");
  EXPECT_EQ(kernel_of(input(two_shot_staged, 9, i32, Op::avg, 2 * kMany, Collective::alltoall)),
      "symm_pipeline_move");

  // The owners of slices make the results of a long scan; of a short one each rank makes its own.
  EXPECT_EQ(kernel_of(input(automatic, 5, bf16, Op::sum, 100, Collective::scan)), "symm_ll_scan_8");
  EXPECT_EQ(kernel_of(input(automatic, 5, bf16, Op::sum, kMany, Collective::exscan)),
      "symm_pipeline_scan");
  EXPECT_EQ(refuse(input(one_shot, 5, bf16, Op::sum, 1, Collective::scan), default_tuning(5)),
      "algorithm one_shot does allreduce, reduce_scatter and, with 2 ranks, reduce of floats up to "
      "32 bits, not scan of bf16");

  for (const auto& [megabytes, kernel] :
      {std::pair<size_t, std::string>{1, "symm_ll_reduce_4"}, {16, "symm_two_shot_reduce_bf16_3"},
          {64, "symm_two_shot_reduce_bf16_3"}, {65, "symm_pipeline_bf16_3"}}) {
    EXPECT_EQ(
        kernel_of(input(automatic, 3, bf16, Op::sum, megabytes * kMany / 8, Collective::reduce)),
        kernel)
        << megabytes;
  }

  for (const auto& [kilobytes, kernel] :
      {std::pair<size_t, std::string>{256, "symm_marked"}, {257, "symm_marked_passed_on"},
          {32 << 10, "symm_marked_passed_on"}, {33 << 10, "symm_pipeline_move"}}) {
    EXPECT_EQ(
        kernel_of(input(automatic, 4, u8, Op::sum, kilobytes << 10, Collective::broadcast)), kernel)
        << kilobytes;
  }
}
}  // namespace
}  // namespace symm::cuda
