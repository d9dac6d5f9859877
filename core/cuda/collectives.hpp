// The collective calls of a group: plan, order, arguments, launch. Nothing here waits for a rank
// or allocates device memory.
#pragma once

#include <span>

#include "core/backend/backend.hpp"
#include "core/backend/stats.hpp"
#include "core/cuda/copy_engine.hpp"
#include "core/cuda/device_group.hpp"
#include "core/cuda/driver.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/plan.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
class Collectives {
 public:
  Collectives(DeviceGroup& group, GroupStats& stats)
      : group_(group), stats_(stats), engine_(group) {}

  void issue(const CollectiveCall& call);
  // Issues calls on one stream, in one turn of the group.
  void issue(std::span<const CollectiveCall> calls);
  PlanReport plan(const CollectiveCall& call) const;

 private:
  PlanInput input_of(const CollectiveCall& call) const;
  Plan possible_plan(const PlanInput& input) const;
  CollectiveCall planned_call(const CollectiveCall& call) const;
  Algorithm algorithm_of(const CollectiveCall& call, const Plan& chosen) const;

  // Issues a call in its turn.
  void issue_next(
      const CollectiveCall& call, const PlanInput& input, const Plan& chosen, bool is_captured);
  void issue_plain(const CollectiveCall& call);
  void issue_planned(const CollectiveCall& call, const PlanInput& input, const Plan& chosen);
  void issue_by_engine(const CollectiveCall& call);

  void launch(const CollectiveCall& call, const PlanInput& input, const Plan& chosen);
  template <int kRanks>
  void launch_plain(const CollectiveCall& call, const PlanInput& input, const Plan& chosen);
  template <int kRanks>
  void launch_pieces(const CollectiveCall& call, const PlanInput& input, const Plan& chosen);
  void issue_on_one_rank(const CollectiveCall& call);
  CUfunction kernel_of(const PlanInput& input, const Plan& chosen);

  DeviceGroup& group_;
  GroupStats& stats_;
  CopyEngine engine_;
  // Kernels of forms, as far as they were asked for. Guarded by the turn of `group_.order`.
  CUfunction kernels_[kKernelForms][kArithmetics] = {};
};
}  // namespace symm::cuda
