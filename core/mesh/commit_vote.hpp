// The last step of making a mesh: the ranks agree that all are connected.
#pragma once

#include <cstdint>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/mesh/peer_events.hpp"
#include "core/mesh/wireup_records.hpp"

namespace symm {
// Tells all other ranks how connecting went (`mine`), and hears it from them, so that connecting
// succeeds on all ranks or on none. Returns the worst failure, the same on all ranks; status ok if
// there is none. Never throws for failures of other ranks. Ranks that voted early may have made
// `group` of all ranks already: they are told of a failure as the first of that group.
Failure commit_vote(PeerEvents& events, WireupRecords& records, int rank, int size, uint64_t group,
    const Failure& mine, Deadline deadline);
}  // namespace symm
