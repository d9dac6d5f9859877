// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/plan.hpp"

#include <algorithm>

#include "kernels/host/call.hpp"
#include "kernels/host/slices.hpp"

namespace symm::host {
namespace {

bool has_block_per_rank(Collective collective) noexcept {
  return collective == Collective::reduce_scatter || collective == Collective::alltoall;
}

bool is_reduced_in_slices(Collective collective) noexcept {
  return collective == Collective::allreduce || collective == Collective::reduce;
}

size_t operand_bytes(const PlanInput& input) noexcept { return input.count * size_of(input.dtype); }

// What one rank hands to the others.
size_t published_bytes(const PlanInput& input) noexcept {
  return operand_bytes(input) * (has_block_per_rank(input.collective) ? static_cast<size_t>(input.size) : 1);
}

// What all ranks together get as results.
size_t result_bytes(const PlanInput& input) noexcept {
  const auto size = static_cast<size_t>(input.size);
  switch (input.collective) {
    case Collective::allreduce:
    case Collective::reduce_scatter:
    case Collective::broadcast: return operand_bytes(input) * size;
    case Collective::reduce: return operand_bytes(input);
    case Collective::allgather:
    case Collective::alltoall: return operand_bytes(input) * size * size;
  }
  return 0;
}

size_t chunk_of(const PlanInput& input, Algorithm algorithm) noexcept {
  const auto size = static_cast<size_t>(input.size);
  size_t wanted = input.tuning.step_bytes;
  size_t unit = kLine;
  size_t fits = input.scratch_bytes / 3;           // three slots
  if (algorithm == Algorithm::hybrid_cube_mesh) {  // three of: the chunk, a quarter, and a quarter in f32
    wanted = input.tuning.step_bytes * 4;
    unit = kLine * 4;
    fits = input.scratch_bytes / 7;
  } else if (algorithm == Algorithm::two_shot_staged && is_reduced_in_slices(input.collective)) {  // and two slices
    wanted = input.tuning.step_bytes * size;
    fits = input.scratch_bytes / 5;
  } else if (has_block_per_rank(input.collective)) {
    fits /= size;
  }
  const size_t all = (operand_bytes(input) + unit - 1) / unit * unit;
  return std::min({wanted, round_down(fits, unit), all});
}

Plan plan_for(const PlanInput& input, Algorithm algorithm) noexcept {
  Plan plan;
  plan.algorithm = algorithm;
  // Bypassing the cache pays only once the results do not fit there anyhow.
  plan.nontemporal = input.llc_bytes > 0 && result_bytes(input) > input.llc_bytes / 2;
  switch (algorithm) {
    case Algorithm::automatic:
    case Algorithm::multimem_one_shot:
    case Algorithm::multimem_two_shot:
    case Algorithm::ll: break;
    case Algorithm::one_shot:
      if (published_bytes(input) > input.scratch_bytes) plan.chunk_bytes = chunk_of(input, algorithm);
      break;
    case Algorithm::two_shot:
      plan.entered = true;
      plan.zero_copy = true;
      break;
    case Algorithm::two_shot_staged:
    case Algorithm::hybrid_cube_mesh: plan.chunk_bytes = chunk_of(input, algorithm); break;
  }
  if (algorithm == Algorithm::hybrid_cube_mesh)
    plan.slices = 4;
  else if (algorithm != Algorithm::one_shot && algorithm != Algorithm::ll && input.collective != Collective::broadcast)
    plan.slices = input.size;
  return plan;
}

Algorithm choose(const PlanInput& input) noexcept {
  const size_t published = published_bytes(input);
  if (published <= std::min(input.tuning.ll_max, kEntryPayload)) return Algorithm::ll;
  // One step more costs more than a copy and doing all the arithmetic on every rank.
  if (published <= input.tuning.one_shot_max) return Algorithm::one_shot;
  return Algorithm::two_shot;
}

std::string text(size_t value) { return std::to_string(value); }

}  // namespace

Plan plan(const PlanInput& input) {
  if (input.size == 1 || input.count == 0) {  // a copy, or nothing
    Plan copy;
    copy.algorithm = input.forced == Algorithm::automatic ? Algorithm::one_shot : input.forced;
    copy.nontemporal = input.llc_bytes > 0 && result_bytes(input) > input.llc_bytes / 2;
    return copy;
  }
  return plan_for(input, input.forced == Algorithm::automatic ? choose(input) : input.forced);
}

Plan settle(const PlanInput& input, const Plan& first, bool all_symmetric) {
  if (!first.zero_copy || all_symmetric) return first;
  Plan staged = plan_for(input, Algorithm::two_shot_staged);
  staged.entered = true;
  return staged;
}

RemoteOperands remote_operands(Collective collective) noexcept {
  RemoteOperands operands;
  operands.send = true;
  operands.recv = is_reduced_in_slices(collective);
  operands.root_only = collective == Collective::broadcast || collective == Collective::reduce;
  operands.out_of_place = collective == Collective::alltoall;
  return operands;
}

size_t minimum_scratch(int size) noexcept { return static_cast<size_t>(size) * 4 * kLine; }

std::string refuse(const PlanInput& input, bool symmetric) {
  const std::string collective = name_of(input.collective);
  // What an algorithm can never do is an error also where there is nothing to do.
  const bool impossible = input.forced == Algorithm::multimem_one_shot || input.forced == Algorithm::multimem_two_shot;
  if ((input.size == 1 || input.count == 0) && input.forced != Algorithm::hybrid_cube_mesh && !impossible) return "";
  switch (input.forced) {
    case Algorithm::automatic:
    case Algorithm::one_shot:
    case Algorithm::two_shot_staged: return "";
    case Algorithm::ll:
      if (published_bytes(input) <= kEntryPayload) return "";
      return "algorithm ll carries at most " + text(kEntryPayload) + " bytes per rank, and this " + collective + " has " +
             text(published_bytes(input));
    case Algorithm::two_shot:
      if (symmetric) return "";
      return "algorithm two_shot is zero copy: the operands of " + collective +
             " that other ranks touch must be symmetric memory" +
             (input.collective == Collective::alltoall ? ", and not in place" : "");
    case Algorithm::hybrid_cube_mesh:
      if (input.collective != Collective::allreduce) return "algorithm hybrid_cube_mesh does allreduce, not " + collective;
      if (input.size != 8) return "algorithm hybrid_cube_mesh needs 8 ranks, not " + text(static_cast<size_t>(input.size));
      return "";
    case Algorithm::multimem_one_shot:
    case Algorithm::multimem_two_shot: return "algorithm " + std::string(name_of(input.forced)) + " needs the multicast of GPUs";
  }
  return "unknown algorithm " + std::to_string(static_cast<int32_t>(input.forced));
}

std::string explain(const PlanInput& input, const Plan& chosen) {
  if (input.count == 0) return "nothing to do for count 0";
  if (input.size == 1) return "one rank: a copy";
  std::string why = input.forced == chosen.algorithm ? "forced: " : "";
  switch (chosen.algorithm) {
    case Algorithm::automatic: return "not chosen yet";
    case Algorithm::multimem_one_shot:
    case Algorithm::multimem_two_shot: break;  // refused
    case Algorithm::ll:
      why += text(published_bytes(input)) + " bytes per rank fit into the line that signals them (" + text(kEntryPayload) + ")";
      break;
    case Algorithm::one_shot:
      why += "up to " + text(input.tuning.one_shot_max) + " bytes of each of " + text(static_cast<size_t>(input.size)) +
             " ranks, one step is cheaper than sharing the work";
      if (!why.empty() && input.forced == chosen.algorithm)
        why = "forced: every rank publishes " + text(published_bytes(input)) + " bytes and takes what it needs in one step";
      break;
    case Algorithm::two_shot: why += "symmetric memory: every rank does its share in place, without a copy"; break;
    case Algorithm::two_shot_staged:
      if (input.forced == Algorithm::two_shot) why += "some rank's memory is not symmetric: ";
      why += "private memory goes through the library's in chunks of " + text(chosen.chunk_bytes) + " bytes";
      break;
    case Algorithm::hybrid_cube_mesh: why += "two quads of four ranks, each rank linked to its quad and one partner"; break;
  }
  if (chosen.nontemporal) why += "; results of " + text(result_bytes(input)) + " bytes bypass the cache";
  return why;
}

}  // namespace symm::host
