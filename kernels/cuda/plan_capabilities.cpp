// The functions that say whether a kernel can do a call, for the rows of plan_forms.cpp.
#include "kernels/cuda/plan_capabilities.hpp"

#include <cstddef>
#include <string>

#include "kernels/collective.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/layout.hpp"
#include "kernels/cuda/plan.hpp"
#include "kernels/cuda/plan_shapes.hpp"
#include "kernels/text.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
namespace {
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

template <class... Words>
bool answer(bool does, std::string* why, const Words&... words) {
  if (!does && why != nullptr) *why = text(words...);
  return does;
}

// A collective that needs no kernel of its own.
bool is_plain(const PlanInput& input, bool in_pieces, std::string* why) {
  const bool does = input.collective != Collective::allreduce_rmsnorm &&
                    traits(input.collective).in_pieces == in_pieces;
  return answer(does, why, "does not do ", collective_name(input.collective));
}

// Operands that are their own flags are held in registers, those of all ranks at a time.
bool is_small(const PlanInput& input, std::string* why) {
  return answer(!input.is_large, why, "is of groups of up to ", kSmallRanks, " ranks");
}

bool pushes_twice(const PlanInput& input, bool does, std::string* why) {
  return is_small(input, why) &&
         answer(does && can_be_pushed(input.dtype), why,
             "does allreduce and, with 3 ranks or more, reduce of floats up to 32 bits, not ",
             collective_name(input.collective), " of ", dtype_name(input.dtype));
}
}  // namespace

bool reduces(const PlanInput& input, std::string* why) {
  const CollectiveTraits what = traits(input.collective);
  return is_plain(input, false, why) && what.has_op && !what.of_prefix;
}

bool scans(const PlanInput& input, std::string* why) {
  return is_plain(input, false, why) && traits(input.collective).of_prefix;
}

bool moves(const PlanInput& input, std::string* why) {
  return is_plain(input, false, why) && !traits(input.collective).has_op;
}

bool reduces_pieces(const PlanInput& input, std::string* why) {
  return is_plain(input, true, why) && traits(input.collective).has_op;
}

bool moves_pieces(const PlanInput& input, std::string* why) {
  return is_plain(input, true, why) && !traits(input.collective).has_op;
}

bool moves_blocks(const PlanInput& input, std::string* why) {
  const bool does = input.collective == Collective::allgather ||
                    input.collective == Collective::alltoall ||
                    input.collective == Collective::broadcast;
  return answer(
      does, why, "does allgather, alltoall and broadcast, not ", collective_name(input.collective));
}

bool passes_on(const PlanInput& input, std::string* why) {
  return moves_blocks(input, why) && input.collective == Collective::broadcast && input.size > 2;
}

bool normalises(const PlanInput& input, std::string* why) {
  if (!is_small(input, why)) return false;
  const bool does =
      input.collective == Collective::allreduce_rmsnorm && input.op == Op::sum && input.size <= 8;
  if (!answer(does, why, "normalises with up to 8 ranks, not ", input.size)) return false;

  const bool fits = input.count == 0 || shape_of_rows(input).blocks != 0;
  return answer(fits, why, "has no clusters of blocks for rows of ", input.root);
}

bool pushes_once(const PlanInput& input, std::string* why) {
  return is_small(input, why) && can_be_pushed(input.dtype) &&
         (input.collective == Collective::allreduce ||
             input.collective == Collective::reduce_scatter);
}

bool pushes_ahead(const PlanInput& input, std::string* why) {
  if (!is_small(input, why)) return false;
  const bool reduces_to_root =
      can_be_pushed(input.dtype) && input.collective == Collective::reduce && input.size == 2;
  const bool does = pushes_once(input, nullptr) || reduces_to_root;
  return answer(does, why,
             "does allreduce, reduce_scatter and, with 2 ranks, reduce of floats up to 32 bits, "
             "not ",
             collective_name(input.collective), " of ", dtype_name(input.dtype)) &&
         input.size == 2;
}

bool pushes_allreduce_twice(const PlanInput& input, std::string* why) {
  return pushes_twice(input, input.collective == Collective::allreduce, why);
}

// With two ranks there is no owner but the root.
bool pushes_reduce_twice(const PlanInput& input, std::string* why) {
  return pushes_twice(input, input.collective == Collective::reduce && input.size > 2, why);
}

bool sums_by_multimem(const PlanInput& input, std::string* why) {
  if (!is_small(input, why)) return false;
  const bool does =
      input.collective == Collective::allreduce && input.op == Op::sum &&
      (input.dtype == DType::f32 || input.dtype == DType::f16 || input.dtype == DType::bf16);
  return answer(does, why, "does the sum of f32, f16 and bf16 by allreduce, not ",
             op_name(input.op), " of ", dtype_name(input.dtype), " by ",
             collective_name(input.collective)) &&
         answer(input.order != Order::tree, why, "adds in the switch, not in tree order");
}

bool reduces_on_mesh(const PlanInput& input, std::string* why) {
  return answer(input.collective == Collective::allreduce, why, "does allreduce, not ",
             collective_name(input.collective)) &&
         answer(input.size == kCubeMeshRanks, why, "needs ", kCubeMeshRanks, " ranks, not ",
             input.size) &&
         is_small(input, why);
}

bool goes_by_engine(const PlanInput& input, std::string* why) {
  const bool is_cut = input.collective == Collective::allreduce &&
                      input.count % static_cast<size_t>(input.size) == 0;
  return answer(is_cut || moves_blocks(input, nullptr), why,
      "does allgather, alltoall, broadcast and allreduce of as many elements for each rank, not ",
      collective_name(input.collective), " of ", input.count);
}

bool always(const PlanInput&) { return true; }

// For a shorter reduce the token takes longer than flags would.
bool prefers_ahead(const PlanInput& input) {
  return !traits(input.collective).to_root || input.unit() > 128 * kKi;
}

bool not_pushed(const PlanInput& input) { return !pushes_once(input, nullptr); }

bool is_on_mesh(const PlanInput& input) { return input.is_cube_mesh; }

bool can_use_copy_engine(const PlanInput& input) {
  return suits_copy_engine(input) && input.why_not.empty();
}

// The root of a broadcast to several ranks would send everything to one after the other.
bool suits_copy_engine(const PlanInput& input) {
  const bool has_links = !traits(input.collective).from_root || input.size == 2;
  return input.same_offsets && has_links && goes_by_engine(input, nullptr);
}
}  // namespace symm::cuda
