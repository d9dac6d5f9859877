// The table of algorithms of the host, the choice among its rows, and the call of the one
// chosen. It asks nothing of the machine: what it needs is in its input.
#include "kernels/host/plan.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/collective.hpp"
#include "kernels/host/execution.hpp"
#include "kernels/host/operands.hpp"
#include "kernels/host/piece_table.hpp"
#include "kernels/host/slices.hpp"
#include "kernels/text.hpp"
#include "kernels/types.hpp"

namespace symm::host {
// The algorithms are in the .cpp files beside this one. They are called with count > 0, size > 1.
void allreduce_ll(const Execution& x);
void allreduce_one_shot(const Execution& x);
void allreduce_two_shot(const Execution& x);
void allreduce_two_shot_staged(const Execution& x);
void allreduce_hybrid_cube_mesh(const Execution& x);
void reduce_scatter_ll(const Execution& x);
void reduce_scatter_staged(const Execution& x);
void reduce_scatter_zero_copy(const Execution& x);
void scan_zero_copy(const Execution& x);
void blocks_ll(const Execution& x);
void blocks_staged(const Execution& x);
void blocks_zero_copy(const Execution& x);
void broadcast_ll(const Execution& x);
void broadcast_staged(const Execution& x);
void broadcast_zero_copy(const Execution& x);
void reduce_ll(const Execution& x);
void reduce_one_shot(const Execution& x);
void reduce_two_shot(const Execution& x);
void reduce_two_shot_staged(const Execution& x);
void exchange_pieces(const Execution& x);
void reduce_pieces(const Execution& x);

// One way to do collectives. Adding one is a row here and a function in a .cpp file beside it.
struct AlgorithmForm {
  Algorithm algorithm;
  bool strict;  // refused even if there is nothing to do
  // Returns "" or what the algorithm needs. `symmetric`: the operands that other
  // ranks touch are symmetric memory.
  std::string (*refuse)(const PlanInput& input, bool symmetric);
  // Whether the algorithm is preferred to the rows after it; null: it must be forced,
  // or settled on.
  bool (*preferred)(const PlanInput& input);
  void (*shape)(Plan& plan, const PlanInput& input);
  std::string (*why)(const PlanInput& input, const Plan& chosen);
  Run run[kCollectives];  // null: not a collective of the algorithm

  Run does(Collective collective) const noexcept { return run[static_cast<size_t>(collective)]; }
};

namespace {
// The bytes that one rank hands to the others.
size_t published_bytes(const PlanInput& input) noexcept {
  return operand_bytes(input.collective, input.unit(), input.size).send;
}

// The bytes that all ranks together get as results.
size_t result_bytes(const PlanInput& input) noexcept {
  const size_t each = operand_bytes(input.collective, input.unit(), input.size).recv;
  return traits(input.collective).to_root ? each : each * static_cast<size_t>(input.size);
}

// ---- what an algorithm does

std::string never(const PlanInput&, bool) { return "needs the multicast of GPUs"; }

std::string is_of_gpus(const PlanInput&, bool) { return "is of the CUDA back end only"; }

std::string is_of_machines(const PlanInput&, bool) { return "is of groups on several machines"; }

std::string nothing(const PlanInput&, bool) { return ""; }

std::string needs_little(const PlanInput& input, bool) {
  if (published_bytes(input) <= kEntryPayload) return "";
  return text("carries at most ", kEntryPayload, " bytes per rank, and this ",
      collective_name(input.collective), " has ", published_bytes(input));
}

std::string needs_symmetric(const PlanInput& input, bool symmetric) {
  if (symmetric) return "";
  return text("is zero copy: the operands of ", collective_name(input.collective),
      " that other ranks touch must be symmetric memory",
      remote_operands(input.collective).out_of_place ? ", and not in place" : "");
}

std::string needs_eight_ranks(const PlanInput& input, bool) {
  if (input.collective != Collective::allreduce) {
    return text("does allreduce, not ", collective_name(input.collective));
  }
  if (input.size == kCubeMeshRanks) return "";
  return text("needs ", kCubeMeshRanks, " ranks, not ", input.size);
}

// ---- when an algorithm is preferred to the rows after it

bool fits_the_entry(const PlanInput& input) {
  return published_bytes(input) <= std::min(input.tuning.ll_max, kEntryPayload);
}

// Below this size one more step costs more than a copy and all the arithmetic on every rank.
bool is_short(const PlanInput& input) {
  return published_bytes(input) <= input.tuning.one_shot_max;
}

bool always(const PlanInput&) { return true; }

// ---- how the work is divided

// The bytes of a step, a multiple of `unit`: `wanted`, but no more than `fits`, for which
// scratch has room, and no more than the call has.
size_t chunk_of(const PlanInput& input, size_t wanted, size_t unit, size_t fits) noexcept {
  const size_t all = (input.unit() + unit - 1) / unit * unit;
  return std::min({wanted, round_down(fits, unit), all});
}

// Published chunks lie in three slots.
size_t published_chunk(const PlanInput& input) noexcept {
  const size_t blocks =
      traits(input.collective).send_per_rank ? static_cast<size_t>(input.size) : 1;
  return chunk_of(input, input.tuning.step_bytes, kLine, input.scratch_bytes / 3 / blocks);
}

int work_parts(const PlanInput& input) noexcept {
  return traits(input.collective).from_root ? 1 : input.size;
}

void in_one_step(Plan&, const PlanInput&) {}

void published_at_once(Plan& plan, const PlanInput& input) {
  if (published_bytes(input) > input.scratch_bytes) plan.chunk_bytes = published_chunk(input);
}

// Chunks of pieces lie in three slots, behind the table of pieces.
void piecewise(Plan& plan, const PlanInput& input) {
  const auto size = static_cast<size_t>(input.size);
  const size_t pieces = traits(input.collective).send_per_rank ? size : 1;
  const size_t room = input.scratch_bytes - PieceTable::bytes(input.size);

  plan.entered = true;
  plan.piece_bytes =
      std::max(kLine, round_down(std::min(room / 3 / pieces, input.tuning.step_bytes), kLine));
}

void in_place(Plan& plan, const PlanInput& input) {
  if (traits(input.collective).in_pieces) piecewise(plan, input);
  plan.entered = true;
  plan.zero_copy = true;
  plan.slices = work_parts(input);
}

void staged(Plan& plan, const PlanInput& input) {
  const auto size = static_cast<size_t>(input.size);
  plan.slices = work_parts(input);
  if (traits(input.collective).in_pieces) {
    piecewise(plan, input);
    plan.chunk_bytes = plan.piece_bytes;
    return;
  }

  // A reduction in slices has two slots of slices beside the three of chunks.
  plan.chunk_bytes =
      traits(input.collective).reduced_in_slices()
          ? chunk_of(input, input.tuning.step_bytes * size, kLine, input.scratch_bytes / 5)
          : published_chunk(input);
}

// Three slots each of a chunk, of a slice, which is a quarter of the chunk, and of a partial sum,
// which is up to four times as wide as a slice: at most 2.25 chunks a slot.
void in_quads(Plan& plan, const PlanInput& input) {
  plan.slices = kQuadRanks;
  plan.chunk_bytes = chunk_of(
      input, input.tuning.step_bytes * kQuadRanks, kLine * kQuadRanks, input.scratch_bytes / 7);
}

// ---- why an algorithm was chosen, for people

std::string why_entry(const PlanInput& input, const Plan&) {
  return text(published_bytes(input), " bytes per rank fit into the line that signals them (",
      kEntryPayload, ")");
}

std::string why_one_step(const PlanInput& input, const Plan& chosen) {
  if (input.algorithm == chosen.algorithm) {
    return text("every rank publishes ", published_bytes(input),
        " bytes and takes what it needs in one step");
  }
  return text("up to ", input.tuning.one_shot_max, " bytes of each of ", input.size,
      " ranks, one step is cheaper than sharing the work");
}

std::string why_symmetric(const PlanInput&, const Plan&) {
  return "symmetric memory: every rank does its share in place, without a copy";
}

std::string why_private(const PlanInput& input, const Plan& chosen) {
  return text(input.algorithm == Algorithm::two_shot ? "some rank's memory is not symmetric: " : "",
      "private memory goes through the library's in chunks of ", chosen.chunk_bytes, " bytes");
}

std::string why_quads(const PlanInput&, const Plan& chosen) {
  return text(
      "each rank reads from its quad, 0-3 or 4-7, and from its partner, r + 4, in chunks of ",
      chosen.chunk_bytes, " bytes");
}

constexpr Run none = nullptr;

// The rows are tried in their order. Functions of an all-reduce combine what reduction_of() tells
// them to, and so do scans.
// clang-format off
constexpr AlgorithmForm kForms[] = {
    {Algorithm::ll, false, needs_little, fits_the_entry, in_one_step, why_entry,
     {allreduce_ll, reduce_scatter_ll, blocks_ll,
      broadcast_ll, reduce_ll, blocks_ll,
      none, none, none, none, none, none, none,
      allreduce_ll, allreduce_ll, none, none, none, none}},
    {Algorithm::one_shot, false, nothing, is_short, published_at_once, why_one_step,
     {allreduce_one_shot, reduce_scatter_staged, blocks_staged,
      broadcast_staged, reduce_one_shot, blocks_staged,
      none, none, none, none, none, none, none,
      allreduce_one_shot, allreduce_one_shot, none, none, none, none}},
    {Algorithm::two_shot, false, needs_symmetric, always, in_place, why_symmetric,
     {allreduce_two_shot, reduce_scatter_zero_copy, blocks_zero_copy,
      broadcast_zero_copy, reduce_two_shot, blocks_zero_copy,
      exchange_pieces, reduce_pieces, exchange_pieces,
      exchange_pieces, exchange_pieces, exchange_pieces,
      none, scan_zero_copy, scan_zero_copy,
      reduce_pieces, exchange_pieces, exchange_pieces, exchange_pieces}},
    {Algorithm::two_shot_staged, false, nothing, nullptr, staged, why_private,
     {allreduce_two_shot_staged, reduce_scatter_staged, blocks_staged,
      broadcast_staged, reduce_two_shot_staged, blocks_staged,
      exchange_pieces, reduce_pieces, exchange_pieces,
      exchange_pieces, exchange_pieces, exchange_pieces,
      none, allreduce_one_shot, allreduce_one_shot,
      reduce_pieces, exchange_pieces, exchange_pieces, exchange_pieces}},
    {Algorithm::hybrid_cube_mesh, false, needs_eight_ranks, nullptr, in_quads, why_quads,
     {allreduce_hybrid_cube_mesh}},
    {Algorithm::multimem_one_shot, true, never, nullptr, in_one_step, nullptr, {}},
    {Algorithm::multimem_two_shot, true, never, nullptr, in_one_step, nullptr, {}},
    {Algorithm::marked, true, is_of_gpus, nullptr, in_one_step, nullptr, {}},
    {Algorithm::copy_engine, true, is_of_gpus, nullptr, in_one_step, nullptr, {}},
    {Algorithm::chain, true, is_of_machines, nullptr, in_one_step, nullptr, {}},
    {Algorithm::bruck, true, is_of_machines, nullptr, in_one_step, nullptr, {}},
    {Algorithm::hierarchical, true, is_of_machines, nullptr, in_one_step, nullptr, {}},
};
// clang-format on

constexpr const AlgorithmForm* find(Algorithm algorithm) noexcept {
  for (const AlgorithmForm& form : kForms) {
    if (form.algorithm == algorithm) return &form;
  }
  return nullptr;
}

// Every algorithm has a row. core/group/checks.cpp refuses other values.
#define SYMM_HAS_ROW(name, c_name, value) \
  static_assert(Algorithm::name == Algorithm::automatic || find(Algorithm::name) != nullptr);
SYMM_ALGORITHMS(SYMM_HAS_ROW)
#undef SYMM_HAS_ROW

// On the host `preferred` alone tells whether a row fits, so no row is asked to refuse.
const AlgorithmForm* choose(const PlanInput& input) noexcept {
  for (const AlgorithmForm& form : kForms) {
    if (form.preferred != nullptr && form.does(input.collective) != nullptr &&
        form.preferred(input)) {
      return &form;
    }
  }
  return nullptr;
}

Plan plan_of(const AlgorithmForm* form, const PlanInput& input) {
  Plan plan;
  plan.form = form;
  // Bypassing the cache pays only once the results do not fit there anyhow.
  plan.nontemporal = input.llc_bytes > 0 && result_bytes(input) > input.llc_bytes / 2;
  if (form == nullptr) return plan;

  plan.algorithm = form->algorithm;
  form->shape(plan, input);
  return plan;
}
}  // namespace

Plan plan(const PlanInput& input) {
  const bool forced = input.algorithm != Algorithm::automatic;
  if (traits(input.collective).in_pieces || (input.size != 1 && input.count != 0)) {
    return plan_of(forced ? find(input.algorithm) : choose(input), input);
  }
  Plan copy = plan_of(nullptr, input);
  copy.algorithm = forced ? input.algorithm : Algorithm::one_shot;
  return copy;
}

Plan settle(const PlanInput& input, const Plan& first, bool all_symmetric) {
  if (!first.zero_copy || all_symmetric) return first;
  Plan staged = plan_of(find(Algorithm::two_shot_staged), input);
  staged.entered = true;
  // Pieces of a rank whose send can be read are taken from there.
  staged.zero_copy = traits(input.collective).in_pieces;
  return staged;
}

RemoteOperands remote_operands(Collective collective) noexcept {
  const CollectiveTraits is = traits(collective);
  const bool out_of_place = is.send_per_rank && is.recv_per_rank;
  if (is.in_pieces) return {true, false, is.from_root, out_of_place};
  return {true, is.reduced_in_slices() || is.of_prefix, is.has_root(), out_of_place};
}

size_t minimum_scratch(int size) noexcept { return static_cast<size_t>(size) * 4 * kLine; }

std::string refuse(const PlanInput& input, bool symmetric) {
  if (input.algorithm == Algorithm::automatic) return "";

  const AlgorithmForm* form = find(input.algorithm);
  if (form == nullptr) {
    return text("unknown algorithm ", static_cast<int32_t>(input.algorithm));
  }
  const bool in_pieces = traits(input.collective).in_pieces;
  if (in_pieces && form->does(input.collective) == nullptr) {
    return text("algorithm ", algorithm_name(input.algorithm), " does not do ",
        collective_name(input.collective));
  }
  const bool has_work = input.size != 1 && (input.count != 0 || in_pieces);
  if (!has_work && !form->strict) return "";

  const std::string why = form->refuse(input, symmetric);
  return why.empty() ? "" : text("algorithm ", algorithm_name(input.algorithm), " ", why);
}

std::string explain(const PlanInput& input, const Plan& chosen) {
  if (input.count == 0 && !has_counts(input.collective)) return "nothing to do for count 0";
  if (input.size == 1 || chosen.form == nullptr) return "one rank: a copy";
  return text(input.algorithm == chosen.algorithm ? "forced: " : "",
      chosen.form->why(input, chosen),
      chosen.nontemporal ? text("; results of ", result_bytes(input), " bytes bypass the cache")
                         : "");
}

void run(const Execution& x) {
  if (x.plan.form != nullptr) return x.plan.form->does(x.call.collective)(x);
  if (!x.plan.entered) x.sync.enter(nullptr, 0);

  // A reduction of bool has results of 0 or 1, but the bytes of its operand may have
  // other values. An exscan of one rank has no operand.
  const bool is_made = x.call.dtype == DType::boolean || traits(x.call.collective).of_prefix;
  if (traits(x.call.collective).has_op && is_made) {
    const std::byte* const send = x.send();
    return reduce_into(x, &send, x.recv(), x.call.unit());
  }
  copy_planned(x, x.recv(), x.send(), x.call.unit());
}
}  // namespace symm::host
