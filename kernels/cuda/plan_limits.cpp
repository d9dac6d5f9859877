// The functions that say how much a kernel carries, for the rows of plan_forms.cpp.
#include "kernels/cuda/plan_limits.hpp"

#include <algorithm>
#include <cstdint>

#include "kernels/collective.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/layout.hpp"
#include "kernels/cuda/plan.hpp"
#include "kernels/cuda/tuning.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
namespace {
// The part of a threshold, below which all is sent at once, that the blocks which have room may
// send; but no less than they send in one go. A forced algorithm keeps the whole threshold.
uint64_t share_of(uint64_t threshold, const PlanInput& input, const Tuning& tuning) {
  if (input.algorithm != Algorithm::automatic) return threshold;

  const auto most = static_cast<uint64_t>(tuning.work_groups);
  const auto blocks = static_cast<uint64_t>(input.max_blocks);
  const uint64_t share = std::max(threshold / most * blocks, blocks * 512 * kPack);
  return std::min(threshold, share);
}

uint64_t one_hop_max_bytes(const PlanInput& input, const Tuning& tuning) {
  const uint64_t most =
      input.collective == Collective::reduce_scatter ? tuning.scatter_max : tuning.one_shot_max;
  return std::min(share_of(most, input, tuning), one_shot_slot_bytes(input.size, tuning));
}

// The last pack of a slot is for tokens.
uint64_t marked_part(const PlanInput& input, const Tuning& tuning) {
  const uint64_t slot = one_shot_slot_bytes(std::max(2, input.size), tuning);
  return (slot - kPack) / kMarkedCells * kMarkedTile;
}
}  // namespace

uint64_t ll_max_bytes(const PlanInput&, const Tuning& tuning) { return tuning.ll_max; }

// Above a quarter, marks take less room than flags. But a broadcast of two ranks has a link to
// itself.
uint64_t ll_move_max_bytes(const PlanInput& input, const Tuning& tuning) {
  const bool has_own_link = traits(input.collective).from_root && input.size == 2;
  return has_own_link ? tuning.ll_max : tuning.ll_max / 4;
}

// Between two ranks, packs of longer messages are sent ahead.
uint64_t one_shot_max_bytes(const PlanInput& input, const Tuning& tuning) {
  const uint64_t most = input.size == 2 ? 4 * kKi * kKi : UINT64_MAX;
  return std::min(one_hop_max_bytes(input, tuning), most);
}

// The last line of a slot is for the token.
uint64_t ahead_part(const PlanInput& input, const Tuning& tuning) {
  return one_shot_slot_bytes(input.size, tuning) / kLine * kLine - kLine;
}

// Several launches are taken where they are faster than the pipeline, of which a reduce leaves
// half of the links idle.
uint64_t one_shot_ahead_max_bytes(const PlanInput& input, const Tuning& tuning) {
  const uint64_t part = ahead_part(input, tuning);
  uint64_t most = std::min(tuning.one_shot_max, part);
  if (traits(input.collective).to_root) {
    most = 8 * part;
  } else if (input.collective == Collective::reduce_scatter) {
    most = std::min(tuning.scatter_max, 4 * part);
  }
  return share_of(most, input, tuning);
}

// A longer message takes one kernel more, which reads every result again. So with three ranks or
// more this is worth while for three times as many bytes as one shot is, and with two ranks for
// as many as fit.
uint64_t rmsnorm_max_bytes(const PlanInput& input, const Tuning& tuning) {
  const uint64_t most = input.size == 2 ? UINT64_MAX : 3 * tuning.one_shot_max;
  return std::min(most, one_shot_slot_bytes(input.size, tuning));
}

uint64_t two_shot_max_bytes(const PlanInput& input, const Tuning& tuning) {
  return share_of(tuning.two_shot_max, input, tuning);
}

uint64_t reduce_max_bytes(const PlanInput&, const Tuning& tuning) {
  return std::min(tuning.reduce_max, uint64_t{2} << 30);
}

// Owners that pass a broadcast on take a hop more, and most of it off the root's link.
uint64_t marked_max_bytes(const PlanInput& input, const Tuning& tuning) {
  const bool is_flat = traits(input.collective).from_root && input.size > 2;
  const uint64_t most = is_flat ? tuning.direct_max / (others(input.size) - 1) : tuning.marked_max;
  return std::min(share_of(most, input, tuning), marked_part(input, tuning));
}

uint64_t relay_part(const PlanInput& input, const Tuning& tuning) {
  return marked_part(input, tuning) * others(input.size);
}

// With little scratch a call takes up to four launches.
uint64_t relay_max_bytes(const PlanInput& input, const Tuning& tuning) {
  return std::min(tuning.relay_max, 4 * relay_part(input, tuning));
}

// An all-reduce, which has a beginning and an end more than what only moves, goes by engines
// from four times as many bytes for each rank (512 MB of 2 and of 4 ranks). Where few blocks
// have room the pipeline is faster than its two parts.
uint64_t engine_max_bytes(const PlanInput& input, const Tuning& tuning) {
  if (input.algorithm != Algorithm::automatic) return UINT64_MAX;

  uint64_t least = std::max(tuning.engine_min / 2, share_of(tuning.engine_min, input, tuning));
  if (traits(input.collective).has_op) {
    if (are_few(input.max_blocks, tuning)) return 0;
    least = 4 * least * static_cast<uint64_t>(input.size);
  }
  return input.unit() < least ? 0 : UINT64_MAX;
}

bool are_few(int blocks, const Tuning& tuning) { return 2 * blocks <= tuning.work_groups; }
}  // namespace symm::cuda
