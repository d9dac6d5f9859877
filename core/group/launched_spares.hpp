// Spares that `symm run --spares` has started. Nothing tells them a rank, so where a rank creates a
// group, such a process waits for a ticket of the group of that name, which the group's rank 0
// leaves in a folder of the job, and joins by it.
#pragma once

#include <memory>
#include <string>

#include "core/group/group.hpp"

namespace symm {
// Whether the configuration leaves rank and place to the launcher.
bool is_launched(const GroupConfig& config);
// Whether a process creates such a group as a spare, as the launcher says.
bool is_launched_spare(const GroupConfig& config);

// [blocking] The group in which this process, a spare, has got a place. The launcher ends processes
// that get none.
std::shared_ptr<Group> join_launched(const GroupConfig& config);

// Leaves a ticket for the spares of the job, if it has any. The first group of a name counts.
void leave_ticket(const Group& group);
}  // namespace symm
