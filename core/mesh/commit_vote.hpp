// The last step of making a mesh: each rank tells all others how connecting went, so that it went well on all or on none.
#pragma once

#include "core/mesh/peer_events.hpp"
#include "core/mesh/wireup_records.hpp"

namespace symm {
// Returns the worst of all, the same on all ranks; status ok if all are well. Never throws for what others did. Those that are in
// `group`, which is to be made of all, are told of a failure as one that came first.
Failure commit_vote(
    PeerEvents& events, WireupRecords& records, int rank, int size, uint64_t group, const Failure& mine, Deadline deadline);
}  // namespace symm
