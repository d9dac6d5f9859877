// The rows of the plan's table, in the order in which they are preferred.
#include "kernels/cuda/plan_forms.hpp"

#include <iterator>
#include <span>
#include <string>

#include "kernels/collective.hpp"
#include "kernels/cuda/plan.hpp"
#include "kernels/cuda/plan_capabilities.hpp"
#include "kernels/cuda/plan_limits.hpp"
#include "kernels/cuda/plan_shapes.hpp"
#include "kernels/text.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
namespace {
// ---- reasons, for people

std::string why_owners(const PlanInput&, const Plan& chosen) {
  return text("by way of the slices' owners, without a barrier, ", chosen.tile, " bytes at a time",
      launch_text(chosen));
}

std::string why_pipeline(const PlanInput& input, const Plan& chosen) {
  const char* how = traits(input.collective).has_op ? "combined by the owners of slices, "
                                                    : "stored where it belongs, ";
  return text(how, chosen.tile, " bytes of each at a time", launch_text(chosen));
}

std::string why_mesh(const PlanInput& input, const Plan& chosen) {
  const char* links =
      input.is_cube_mesh ? "the hybrid cube mesh"
                         : "quads 0-3 and 4-7 and partners r and r + 4, as if the devices had them";
  return text("in two hops along the links of ", links, launch_text(chosen));
}

std::string why_copy_engine(const PlanInput&, const Plan&) {
  return "copied into every recv by engines, between two meetings of a warp";
}

std::string why_pieces(const PlanInput& input, const Plan& chosen) {
  const char* how =
      traits(input.collective).has_op
          ? "combined from scratch"
          : "stored where it belongs, or if that is private brought there from scratch";
  return text(how, ", ", chosen.tile, " bytes of a piece at a time", launch_text(chosen));
}

std::string why_multimem(const PlanInput&, const Plan& chosen) {
  const char* how = chosen.slices == 1 ? "loads all of it" : "loads its slice and stores it to all";
  return text("the switch adds, every rank ", how, launch_text(chosen));
}

// ---- the table

constexpr const char* kOneHop = "one hop to everybody is fastest";
constexpr const char* kBesideFlags = "ride beside their flags";

// clang-format off
constexpr KernelForm kForms[] = {
    {Algorithm::hybrid_cube_mesh, {.name = "hybrid_cube_mesh"},
     reduces_on_mesh, ll_max_bytes, is_on_mesh, shape_ll,
     nullptr, why_mesh},
    {Algorithm::one_shot, {.name = "rmsnorm", .per_arithmetic = true, .per_ranks = true},
     normalises, rmsnorm_max_bytes, always, shape_rmsnorm,
     "are normalised where they arrive"},
    {Algorithm::one_shot, {.name = "one_shot", .per_arithmetic = true, .per_ranks = true},
     pushes_once, one_shot_max_bytes, always, shape_one_shot,
     kOneHop},
    {Algorithm::one_shot, {.name = "one_shot_ahead", .per_arithmetic = true},
     pushes_ahead, one_shot_ahead_max_bytes, prefers_ahead, shape_one_shot_ahead,
     kOneHop},
    {Algorithm::two_shot, {.name = "two_shot", .per_arithmetic = true, .per_ranks = true},
     pushes_allreduce_twice, two_shot_max_bytes, always, shape_two_shot,
     nullptr, why_owners},
    {Algorithm::ll, {.name = "ll_reduce", .per_ranks = true},
     reduces, ll_max_bytes, not_pushed, shape_ll,
     kBesideFlags},
    {Algorithm::ll, {.name = "ll_scan", .per_ranks = true},
     scans, ll_max_bytes, not_pushed, shape_ll,
     kBesideFlags},
    {Algorithm::ll, {.name = "ll_move", .per_ranks = true},
     moves, ll_move_max_bytes, not_pushed, shape_ll,
     kBesideFlags},
    {Algorithm::two_shot, {.name = "two_shot_reduce", .per_arithmetic = true, .per_ranks = true},
     pushes_reduce_twice, reduce_max_bytes, always, shape_two_shot_reduce,
     nullptr, why_owners},
    {Algorithm::marked, {.name = "marked"},
     moves_blocks, marked_max_bytes, always, shape_marked,
     "are their own flags, with a mark for every 64"},
    {Algorithm::marked, {.name = "marked_passed_on"},
     passes_on, relay_max_bytes, always, shape_relay,
     "go to one rank each, who sends them to the others"},
    {Algorithm::copy_engine, {},
     goes_by_engine, engine_max_bytes, can_use_copy_engine, shape_copy_engine,
     nullptr, why_copy_engine},
    {Algorithm::two_shot_staged, {.name = "pipeline", .per_arithmetic = true, .per_ranks = true},
     reduces, nullptr, always, shape_pipeline,
     nullptr, why_pipeline},
    {Algorithm::two_shot_staged, {.name = "pipeline_scan"},
     scans, nullptr, always, shape_pipeline,
     nullptr, why_pipeline},
    {Algorithm::two_shot_staged, {.name = "pieces_move"},
     moves_pieces, nullptr, always, shape_pieces,
     nullptr, why_pieces},
    {Algorithm::two_shot_staged, {.name = "pipeline_move"},
     moves, nullptr, always, shape_pipeline,
     nullptr, why_pipeline},
    {Algorithm::two_shot_staged, {.name = "pieces_reduce", .per_arithmetic = true},
     reduces_pieces, nullptr, always, shape_pieces,
     nullptr, why_pieces},
    {Algorithm::multimem_one_shot,
     {.name = "multimem_one_shot", .per_arithmetic = true, .multicast = true},
     sums_by_multimem, nullptr, nullptr, shape_multimem,
     nullptr, why_multimem},
    {Algorithm::multimem_two_shot,
     {.name = "multimem_two_shot", .per_arithmetic = true, .multicast = true},
     sums_by_multimem, nullptr, nullptr, shape_multimem,
     nullptr, why_multimem},
};
// clang-format on
static_assert(
    std::size(kForms) == kKernelForms, "kKernelForms of plan.hpp is the number of rows above");
}  // namespace

std::span<const KernelForm> kernel_forms() { return kForms; }

std::string launch_text(const Plan& chosen) {
  return text(" (", chosen.blocks, " blocks of ", chosen.threads, ")");
}
}  // namespace symm::cuda
