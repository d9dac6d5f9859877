// Chooses a row of the plan's table for a call on GPUs. It asks no device: what it needs of one
// is in its input.
#include "kernels/cuda/plan.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/plan_capabilities.hpp"
#include "kernels/cuda/plan_forms.hpp"
#include "kernels/cuda/plan_limits.hpp"
#include "kernels/cuda/tuning.hpp"
#include "kernels/text.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
namespace {
bool carries(const KernelForm& form, const PlanInput& input, const Tuning& tuning) {
  return input.unit() <= form.max_bytes(input, tuning);
}

const KernelForm* choose(const PlanInput& input, const Tuning& tuning) {
  for (const KernelForm& form : kernel_forms()) {
    if (form.preferred != nullptr && form.preferred(input) && form.does(input, nullptr) &&
        carries(form, input, tuning)) {
      return &form;
    }
  }
  return nullptr;
}

// The first form of an algorithm that does this and carries as much. If there is none, the form
// whose refusal is told: the last one that does this, or the last one.
const KernelForm* find(Algorithm algorithm, const PlanInput& input, const Tuning& tuning) {
  const KernelForm* found = nullptr;
  for (const KernelForm& form : kernel_forms()) {
    if (form.algorithm != algorithm) continue;

    const bool does = form.does(input, nullptr);
    if (does && carries(form, input, tuning)) return &form;
    if (found == nullptr || does || !found->does(input, nullptr)) found = &form;
  }
  return found;
}

// Kernels whose arithmetic is unrolled are compiled for every number of ranks that
// machines have; the others for up to a power of two. In a large group all kernels
// are for any number of ranks.
std::string kernel_name(const KernelForm& form, const CallSignature& call, const Facts& group) {
  constexpr const char* kNames[kArithmetics] = {"any", "any", "bf16", "f16", "f32"};
  const int size = std::max(group.size, 2);
  Arithmetic arithmetic = arithmetic_of(call);
  if (form.kernel.per_ranks && !group.is_large && size > 8) arithmetic = Arithmetic::any;

  std::string name = text(group.is_large ? "symm_large_" : "symm_", form.kernel.name);
  if (form.kernel.per_arithmetic) name += text("_", kNames[static_cast<size_t>(arithmetic)]);
  if (form.kernel.per_ranks && !group.is_large) {
    const bool exact = form.kernel.per_arithmetic && arithmetic > Arithmetic::any;
    name += text("_", exact ? size : static_cast<int>(std::bit_ceil(static_cast<unsigned>(size))));
  }
  return name;
}
}  // namespace

PlanInput within_block_limit(const PlanInput& input) {
  PlanInput limited = input;
  if (input.block_limit == 0) return limited;

  // `max_blocks` counts two for each multiprocessor.
  limited.max_blocks = std::min(input.max_blocks, 2 * int{input.block_limit});
  limited.shares_device = true;
  limited.block_limit = 0;
  return limited;
}

bool may_go_by_engine(const PlanInput& input, const Tuning& tuning) {
  if (input.block_limit != 0) return may_go_by_engine(within_block_limit(input), tuning);

  return input.algorithm == Algorithm::copy_engine ||
         (suits_copy_engine(input) && engine_max_bytes(input, tuning) != 0);
}

Plan plan(const PlanInput& input, const Tuning& tuning) {
  if (input.block_limit != 0) return cuda::plan(within_block_limit(input), tuning);

  Plan plan;
  // The lengths of pieces are elsewhere, so neither `count` 0 nor one rank means that there is
  // nothing to launch.
  const bool in_pieces = traits(input.collective).in_pieces;
  if (input.count == 0 && !in_pieces) return plan;

  const bool forced = input.algorithm != Algorithm::automatic;
  if (input.size == 1 && !in_pieces) {
    plan.algorithm = forced ? input.algorithm : Algorithm::one_shot;
    return plan;
  }

  plan.form = forced ? find(input.algorithm, input, tuning) : choose(input, tuning);
  if (plan.form == nullptr) return plan;

  plan.algorithm = plan.form->algorithm;
  plan.form->shape(plan, input, tuning);
  return plan;
}

std::string refuse(const PlanInput& input, const Tuning& tuning) {
  if (input.algorithm == Algorithm::automatic) return "";
  if (input.block_limit != 0) return refuse(within_block_limit(input), tuning);

  const KernelForm* form = find(input.algorithm, input, tuning);
  if (form == nullptr && is_valid(input.algorithm)) {
    return text("algorithm ", algorithm_name(input.algorithm), " is of groups on several machines");
  }
  if (form == nullptr) return text("unknown algorithm ", static_cast<int>(input.algorithm));
  if ((input.size == 1 || input.count == 0) && !traits(input.collective).in_pieces) return "";

  const std::string name = text("algorithm ", algorithm_name(input.algorithm));
  std::string why;
  if (!form->does(input, &why)) return text(name, " ", why);
  if (!carries(*form, input, tuning)) {
    return text(
        name, " carries at most ", form->max_bytes(input, tuning), " bytes, not ", input.unit());
  }
  if (!input.why_not.empty()) return text(name, ": ", input.why_not);
  return "";
}

std::string explain(const PlanInput& input, const Plan& chosen, const Tuning& tuning) {
  if (input.block_limit != 0) {
    return text(explain(within_block_limit(input), chosen, tuning), ", at most ",
        static_cast<int>(input.block_limit), " blocks by max_blocks");
  }
  if (chosen.form == nullptr && input.count == 0) return "nothing to do for count 0";
  if (chosen.form == nullptr) return "one rank: a copy";

  const KernelForm& form = *chosen.form;
  const char* forced = input.algorithm != Algorithm::automatic ? "forced: " : "";
  if (form.up_to == nullptr) return text(forced, form.why(input, chosen));
  return text(
      forced, "up to ", form.max_bytes(input, tuning), " bytes ", form.up_to, launch_text(chosen));
}

Arithmetic arithmetic_of(const CallSignature& call) {
  if (!traits(call.collective).has_op) return Arithmetic::none;
  if (call.op != Op::sum && call.op != Op::avg) return Arithmetic::any;
  switch (combined_as(call.dtype, call.op)) {
    case DType::bf16: return Arithmetic::bf16;
    case DType::f16: return Arithmetic::f16;
    case DType::f32: return Arithmetic::f32;
    default: return Arithmetic::any;
  }
}

std::string kernel_name(const PlanInput& input, const Plan& chosen) {
  return kernel_name(*chosen.form, input, input);
}

size_t row_of(const Plan& chosen) {
  return static_cast<size_t>(chosen.form - kernel_forms().data());
}

std::vector<std::string> kernel_names(const Facts& group, bool multicast) {
  std::set<std::string> names;
  PlanInput input;
  input.size = group.size;
  input.is_large = group.is_large;
  const auto add_names = [&] {
    for (const KernelForm& form : kernel_forms()) {
      if (form.kernel.name != nullptr && form.kernel.multicast == multicast &&
          form.does(input, nullptr)) {
        names.insert(kernel_name(form, input, input));
      }
    }
  };

  // Each collective stands for all that the same kernels do, and so does each operator.
  for (const Collective collective :
      {Collective::allreduce, Collective::allreduce_rmsnorm, Collective::reduce, Collective::scan,
          Collective::broadcast, Collective::reduce_scatterv, Collective::allgatherv}) {
    for (const Op op : {Op::sum, Op::max}) {
      for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
        input.collective = collective;
        input.op = op;
        input.dtype = dtype;
        add_names();
      }
    }
  }
  return {names.begin(), names.end()};
}
}  // namespace symm::cuda
