// How a group is created and how its ranks rendezvous: prepare, commit vote, exchange,
// commit vote. Every rank learns every rank's vote and draws the same conclusion, so a
// failure on one rank is the same failure on all.
#pragma once

#include "core/group/group.hpp"

namespace symm {
struct Vote {
  Failure failure;         // status ok: this rank has done its part
  uint64_t value[8] = {};  // facts that the others need
};

// The same failure on all ranks, which therefore are in step still. Whatever else a
// vote or an exchange throws is this rank's own.
struct Agreed : Error {
  using Error::Error;
};

// Ranks did not come of which `named` may live, and wait itself: for one that came to
// this rank and not to it. Then it says so when it hears that it is blamed.
struct BlameUnknown : Error {
  BlameUnknown(Failure failure, int rank) : Error(std::move(failure)), named(rank) {}
  int named;
};

// [collective] Throws Agreed if any vote is a failure: that of
// the lowest failing rank. Throws Error(timeout), or BlameUnknown,
// naming all ranks whose vote did not come, Error(peer_failed).
std::vector<Vote> commit_vote(
    Group& group, const Topic& topic, const Vote& mine, Deadline deadline);

// What this rank brings: facts to agree on, and a
// message for every other rank, of the same size on all.
struct Offer {
  uint64_t value[8] = {};
  OutgoingMessage message;
};

// Whatever prepare, accept and finish throw is this rank's vote. What agree() throws of
// all ranks' facts is the same on all ranks.
struct Phases {
  std::function<Offer()> prepare;
  std::function<void(std::span<const Vote> votes)> agree;
  std::function<void(int peer, Message message)> accept;
  std::function<void()> finish;  // all peers' messages were accepted
};

// [collective] `sequence` is below 2^63, and the same on all ranks.
void exchange(Group& group, MessageKind kind, uint64_t tag, uint64_t sequence, const Phases& phases,
    Deadline deadline);
}  // namespace symm
