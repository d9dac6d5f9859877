// SPDX-License-Identifier: Apache-2.0
//
// Agreement: every rank of a group learns every rank's ballot, and all draw the same conclusion from them.
#pragma once

#include <string>
#include <vector>

#include "core/group/group.hpp"

namespace symm {

struct Ballot {
  Failure failure;         // status ok: this rank has done its part
  uint64_t value[2] = {};  // facts that the others need, compared by the caller
};

// [collective] Exchange ballots. Throws the same Error on every rank if any ballot is a failure: that of the lowest failing rank.
// Throws Error(timeout) naming all ranks whose ballot did not come, Error(peer_failed).
std::vector<Ballot> vote(Group& group, const Topic& topic, const Ballot& mine, Deadline deadline);

}  // namespace symm
