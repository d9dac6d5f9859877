// The way of a collective from the C ABI to the group's transport.
#pragma once

#include "core/backend/backend.hpp"
#include "kernels/collective_call.hpp"

namespace symm {
class Group;

void run_collective(Group& group, const CollectiveCall& call);
PlanReport plan_collective(Group& group, const CollectiveCall& call);
}  // namespace symm
