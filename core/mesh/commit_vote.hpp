// The last step of making a mesh: each rank tells all others how connecting went, so that it went well on all or on none.
#pragma once

#include "core/mesh/peer_events.hpp"
#include "core/mesh/wireup_records.hpp"

namespace symm {
// Returns the worst of all, the same on all ranks; status ok if all are well. Never throws for what others did.
Failure commit_vote(PeerEvents& events, WireupRecords& records, int rank, int size, const Failure& mine, Deadline deadline);
}  // namespace symm
