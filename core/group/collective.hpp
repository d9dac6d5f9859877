// SPDX-License-Identifier: Apache-2.0
//
// The collectives' common front: arguments are checked here, once for all back ends, and then handed to the group's transport.
#pragma once

#include "core/group/group.hpp"

namespace symm {

void run_collective(Group& group, const CollectiveCall& call);
PlanReport plan_collective(Group& group, const CollectiveCall& call);

}  // namespace symm
