// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/plan.hpp"

#include <algorithm>
#include <bit>

#include "core/backend/topology.hpp"
#include "core/base/error.hpp"

namespace symm::cuda {
namespace {

constexpr uint64_t kKi = 1024;
constexpr uint64_t kPage = 4096;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }
uint64_t divide_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit; }

uint64_t unit_of(const PlanInput& input) { return input.count * size_of(input.dtype); }

// Types that have a bit pattern to spare (push.cuh).
bool can_be_pushed(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f8e4m3:
    case DType::f8e5m2: return true;
    default: return false;
  }
}

bool reduces(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::reduce_scatter || collective == Collective::reduce;
}
bool has_slices(Collective collective) {
  return collective == Collective::allreduce || collective == Collective::reduce || collective == Collective::broadcast;
}
bool one_shot_does(const PlanInput& input) {
  return can_be_pushed(input.dtype) &&
         (input.collective == Collective::allreduce || input.collective == Collective::reduce_scatter);
}
bool two_shot_does(const PlanInput& input) { return can_be_pushed(input.dtype) && input.collective == Collective::allreduce; }

bool multimem_does(const PlanInput& input) {
  return input.collective == Collective::allreduce && input.op == Op::sum &&
         (input.dtype == DType::f32 || input.dtype == DType::f16 || input.dtype == DType::bf16);
}

// There is no second shot for a reduce-scatter to prefer, and only what it sends to one rank counts.
uint64_t one_shot_limit(Collective collective, const Tuning& tuning) {
  return collective == Collective::reduce_scatter ? 2 * tuning.one_shot_max : tuning.one_shot_max;
}

Family choose(const PlanInput& input, const Tuning& tuning) {
  if (input.size == 1) return Family::copy;
  const uint64_t unit = unit_of(input);
  if (input.is_cube_mesh && input.collective == Collective::allreduce && unit <= tuning.ll_max) return Family::hybrid_cube_mesh;
  if (one_shot_does(input) && unit <= one_shot_limit(input.collective, tuning)) return Family::one_shot;
  if (two_shot_does(input) && unit <= tuning.two_shot_max) return Family::two_shot;
  if (!one_shot_does(input) && unit <= tuning.ll_max) return reduces(input.collective) ? Family::ll_reduce : Family::ll_move;
  return Family::pipeline;
}

Family forced_family(const PlanInput& input, const Tuning& tuning) {
  if (input.size == 1) return Family::copy;
  switch (input.forced) {
    case Algorithm::ll: return reduces(input.collective) ? Family::ll_reduce : Family::ll_move;
    case Algorithm::one_shot: return Family::one_shot;
    case Algorithm::two_shot: return Family::two_shot;
    case Algorithm::two_shot_staged: return Family::pipeline;
    case Algorithm::multimem_one_shot: return Family::multimem_one_shot;
    case Algorithm::multimem_two_shot: return Family::multimem_two_shot;
    case Algorithm::hybrid_cube_mesh: return Family::hybrid_cube_mesh;
    case Algorithm::automatic: break;
  }
  return choose(input, tuning);
}

Algorithm algorithm_of(Family family) {
  switch (family) {
    case Family::ll_reduce:
    case Family::ll_move: return Algorithm::ll;
    case Family::two_shot: return Algorithm::two_shot;
    case Family::pipeline: return Algorithm::two_shot_staged;
    case Family::hybrid_cube_mesh: return Algorithm::hybrid_cube_mesh;
    case Family::multimem_one_shot: return Algorithm::multimem_one_shot;
    case Family::multimem_two_shot: return Algorithm::multimem_two_shot;
    case Family::none:
    case Family::copy:
    case Family::one_shot: return Algorithm::one_shot;
  }
  return Algorithm::one_shot;
}

// One pack a thread while blocks are to be had; small blocks spread the work over more multiprocessors.
void shape(Plan& plan, uint64_t packs, int max_blocks, int threads) {
  plan.threads = threads;
  const int limit = std::max(1, max_blocks / 2);  // with the registers they have, one of 512 threads a multiprocessor
  const uint64_t blocks = divide_up(packs, static_cast<uint64_t>(threads));
  const bool has_flags_beside =
      plan.family == Family::ll_reduce || plan.family == Family::ll_move || plan.family == Family::hybrid_cube_mesh;
  if (blocks > static_cast<uint64_t>(std::min(limit, 128)) && !has_flags_beside) {
    plan.threads = 512;
    plan.blocks = static_cast<int>(std::min<uint64_t>(divide_up(packs, 512), static_cast<uint64_t>(std::min(limit, 128))));
  } else {
    plan.blocks = static_cast<int>(std::min<uint64_t>(blocks, static_cast<uint64_t>(std::min(limit, 128))));
  }
}

// A whole number of packs for each rank, so that slices of full chunks are equal.
uint64_t chunk_of(int size, const Tuning& tuning) { return round_up(tuning.two_shot_chunk, kPack * static_cast<uint64_t>(size)); }

void shape_pipeline(Plan& plan, const PlanInput& input, const Tuning& tuning) {
  const uint64_t unit = unit_of(input);
  const auto n = static_cast<uint64_t>(input.size);
  // Passing on takes a hop more and saves the root's link n - 2 times the message.
  plan.flat = input.collective == Collective::broadcast && unit * (n - 2) <= tuning.flat_max;
  const uint64_t parts = plan.flat                                   ? 1
                         : input.collective == Collective::broadcast ? n - 1
                         : has_slices(input.collective)              ? n
                                                                     : 1;  // as WorkGroup::slice() cuts
  plan.threads = tuning.width;
  // Three roles where recv is private.
  plan.work_groups = std::max(1, std::min({tuning.work_groups, kMaxWorkGroups, input.max_blocks * 512 / tuning.width / 3}));
  // Two tiles a work group or more, so that the roles overlap; but not so small that waiting, some microseconds a tile, outweighs
  // moving.
  const uint64_t wanted = std::bit_floor(std::max<uint64_t>(1, unit / parts / static_cast<uint64_t>(plan.work_groups) / 2));
  plan.tile = std::clamp<uint64_t>(wanted, std::min<uint64_t>(4 * kKi, tuning.tile), tuning.tile);
  // What is passed on last is what everybody waits for. 16 KB were worse, for their fences.
  if (input.collective == Collective::broadcast && !plan.flat) plan.tile = std::min<uint64_t>(plan.tile, 32 * kKi);
  plan.tiles = divide_up(unit, parts * plan.tile);
  plan.work_groups = static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(plan.work_groups), plan.tiles));
}

// Blocks of one rank wait for those of the others, so all of a launch must fit. Never measured: others use few blocks, since one
// instruction moves what n do elsewhere.
void shape_multimem(Plan& plan, uint64_t packs, int max_blocks) {
  plan.threads = 512;
  const int limit = std::clamp(max_blocks / 2, 1, kMultimemBlocks);
  plan.blocks = static_cast<int>(std::clamp<uint64_t>(divide_up(packs, 512), 1, static_cast<uint64_t>(limit)));
}

}  // namespace

Tuning tuning_of(const PlanValues& values) {
  const auto value = [&](const char* key) { return values.of(BackendKind::cuda, key); };
  Tuning tuning;
  tuning.ll_max = value("ll");
  tuning.one_shot_max = value("one_shot");
  tuning.two_shot_max = value("two_shot");
  tuning.two_shot_chunk = value("chunk");
  tuning.threads = static_cast<int>(value("threads"));
  tuning.flat_max = value("flat");
  tuning.early = static_cast<int>(value("early"));
  tuning.work_groups = static_cast<int>(value("stripes"));
  tuning.width = static_cast<int>(value("width"));
  tuning.tile = value("tile");
  return tuning;
}

Layout layout_of(int size, const Tuning& tuning) {
  const auto n = static_cast<uint64_t>(size);
  Layout layout{};
  uint64_t at = round_up(sizeof(ControlWords), kPage);
  const auto take = [&](uint64_t bytes) {
    const uint64_t start = at;
    at = round_up(at + bytes, kPage);
    return start;
  };
  layout.memories = take(kMaxMemories * sizeof(MemoryEntry));
  layout.ll_slot = (divide_up(tuning.ll_max, kPack) + 1) * 2 * kPack;
  layout.ll = take(2 * n * layout.ll_slot);
  layout.one_shot_slot = round_up(one_shot_limit(Collective::reduce_scatter, tuning), kPack);
  layout.one_shot = take(2 * n * layout.one_shot_slot);
  layout.two_shot_slot = chunk_of(size, tuning) / n;
  layout.two_shot = take(4 * n * layout.two_shot_slot);
  layout.stage_slot = tuning.tile;
  for (uint64_t& stage : layout.stage) stage = take(static_cast<uint64_t>(tuning.work_groups) * kSlots * n * layout.stage_slot);
  layout.bytes = at;
  return layout;
}

Plan plan(const PlanInput& input, const Tuning& tuning) {
  Plan plan;
  if (input.count == 0) return plan;
  plan.family = input.forced == Algorithm::automatic ? choose(input, tuning) : forced_family(input, tuning);
  plan.algorithm = input.size == 1 && input.forced != Algorithm::automatic ? input.forced : algorithm_of(plan.family);
  const uint64_t packs = divide_up(unit_of(input), kPack);
  switch (plan.family) {
    case Family::none:
    case Family::copy: break;
    case Family::ll_reduce:
    case Family::ll_move:
    case Family::hybrid_cube_mesh:
    case Family::one_shot: shape(plan, packs, input.max_blocks, tuning.threads); break;
    case Family::two_shot: {
      plan.tile = chunk_of(input.size, tuning);
      plan.tiles = divide_up(unit_of(input), plan.tile);
      const uint64_t packs_of_chunk = divide_up(std::min(unit_of(input), plan.tile), kPack);
      shape(plan, divide_up(packs_of_chunk, static_cast<uint64_t>(input.size)), input.max_blocks, tuning.threads);
      break;
    }
    case Family::pipeline: shape_pipeline(plan, input, tuning); break;
    case Family::multimem_one_shot: shape_multimem(plan, packs, input.max_blocks); break;
    case Family::multimem_two_shot:
      shape_multimem(plan, divide_up(packs, static_cast<uint64_t>(input.size)), input.max_blocks);
      break;
  }
  return plan;
}

std::string refuse(const PlanInput& input, const Tuning& tuning) {
  if ((input.size == 1 || input.count == 0) && input.forced != Algorithm::hybrid_cube_mesh) return "";
  const uint64_t unit = unit_of(input);
  const auto limit = [&](const char* name, uint64_t most) {
    return unit <= most ? std::string()
                        : format("algorithm %s carries at most %llu bytes, not %llu", name, static_cast<unsigned long long>(most),
                                 static_cast<unsigned long long>(unit));
  };
  switch (input.forced) {
    case Algorithm::automatic:
    case Algorithm::two_shot_staged: return "";
    case Algorithm::ll: return limit("ll", tuning.ll_max);
    case Algorithm::one_shot:
      if (!one_shot_does(input))
        return format("algorithm one_shot does allreduce and reduce_scatter of floats up to 32 bits, not %s of %s",
                      name_of(input.collective), name_of(input.dtype));
      return limit("one_shot", one_shot_limit(input.collective, tuning));
    case Algorithm::two_shot:
      if (!two_shot_does(input))
        return format("algorithm two_shot does allreduce of floats up to 32 bits, not %s of %s", name_of(input.collective),
                      name_of(input.dtype));
      return limit("two_shot", tuning.two_shot_max);
    case Algorithm::hybrid_cube_mesh:
      if (input.collective != Collective::allreduce)
        return format("algorithm hybrid_cube_mesh does allreduce, not %s", name_of(input.collective));
      if (input.size != kCubeMeshRanks) return format("algorithm hybrid_cube_mesh needs 8 ranks, not %d", input.size);
      return limit("hybrid_cube_mesh", tuning.ll_max);
    case Algorithm::multimem_one_shot:
    case Algorithm::multimem_two_shot:
      if (!multimem_does(input)) {
        return format("algorithm %s does the sum of f32, f16 and bf16 by allreduce, not %s of %s by %s", name_of(input.forced),
                      name_of(input.op), name_of(input.dtype), name_of(input.collective));
      }
      return input.why_no_multimem.empty() ? ""
                                           : format("algorithm %s: %s", name_of(input.forced), input.why_no_multimem.c_str());
  }
  return format("unknown algorithm %d", static_cast<int>(input.forced));
}

std::string explain(const PlanInput& input, const Plan& chosen, const Tuning& tuning) {
  if (input.count == 0) return "nothing to do for count 0";
  if (input.size == 1) return "one rank: a copy";
  const std::string why = input.forced != Algorithm::automatic ? "forced: " : "";
  const std::string launch = format(" (%d blocks of %d)", chosen.blocks, chosen.threads);
  const auto text = [](uint64_t value) { return std::to_string(value); };
  switch (chosen.family) {
    case Family::none:
    case Family::copy: break;
    case Family::ll_reduce:
    case Family::ll_move: return why + "up to " + text(tuning.ll_max) + " bytes ride beside their flags" + launch;
    case Family::hybrid_cube_mesh:
      return why + "up to " + text(tuning.ll_max) + " bytes along the links of " +
             (input.is_cube_mesh ? "the hybrid cube mesh"
                                 : "quads 0-3 and 4-7 and partners r and r + 4, which the topology does not show") +
             launch;
    case Family::one_shot:
      return why + "up to " + text(one_shot_limit(input.collective, tuning)) + " bytes one hop to everybody is fastest" + launch;
    case Family::two_shot:
      return why + "by way of the slices' owners, without a barrier, " + text(chosen.tile) + " bytes at a time" + launch;
    case Family::pipeline:
      return why + "pushed tile by tile through scratch of bounded size" +
             format(" (%d stripes, slices of %llu bytes)", chosen.work_groups, static_cast<unsigned long long>(chosen.tile));
    case Family::multimem_one_shot: return why + "the switch adds, every rank loads all of it" + launch;
    case Family::multimem_two_shot: return why + "the switch adds, every rank loads its slice and stores it to all" + launch;
  }
  return why;
}

Arithmetic arithmetic_of(const PlanInput& input) {
  if (!reduces(input.collective)) return Arithmetic::none;
  if (input.op != Op::sum && input.op != Op::avg) return Arithmetic::any;
  switch (input.dtype) {
    case DType::bf16: return Arithmetic::bf16;
    case DType::f16: return Arithmetic::f16;
    case DType::f32: return Arithmetic::f32;
    default: return Arithmetic::any;
  }
}

std::string kernel_name(const PlanInput& input, Family family) {
  const int ranks = input.size == 2 || input.size == 4 || input.size == 8 ? input.size : kMaxRanks;
  constexpr const char* kNames[kArithmetics] = {"any", "any", "bf16", "f16", "f32"};
  const Arithmetic kind = arithmetic_of(input);
  const char* arithmetic = kNames[static_cast<size_t>(kind)];
  switch (family) {
    case Family::none:
    case Family::copy: return "";
    case Family::ll_reduce: return format("symm_ll_reduce_%d", ranks);
    case Family::ll_move: return format("symm_ll_move_%d", ranks);
    case Family::one_shot: return format("symm_one_shot_%s_%d", arithmetic, ranks);
    case Family::two_shot: return format("symm_two_shot_%s_%d", arithmetic, ranks);
    case Family::pipeline:
      return kind == Arithmetic::none ? "symm_pipeline_move" : format("symm_pipeline_%s_%d", arithmetic, ranks);
    case Family::hybrid_cube_mesh: return "symm_hybrid_cube_mesh";
    case Family::multimem_one_shot: return format("symm_multimem_one_shot_%s", arithmetic);
    case Family::multimem_two_shot: return format("symm_multimem_two_shot_%s", arithmetic);
  }
  return "";
}

}  // namespace symm::cuda
