// SPDX-License-Identifier: Apache-2.0
//
// The collectives' common front: arguments are checked here, once for all back ends, and then handed to the group's transport.
#pragma once

#include "core/group/group.hpp"

namespace symm {

Error unknown_dtype(int value);  // 0 is a type of no version

void run_collective(Group& group, const CollectiveCall& call);
PlanReport plan_collective(Group& group, const CollectiveCall& call);

}  // namespace symm
