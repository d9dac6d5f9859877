// How a group is created and how its ranks rendezvous: prepare, commit vote, exchange, commit vote.
// Every rank learns every rank's vote and draws the same conclusion, so a failure on one rank is
// the same failure on all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/group/group.hpp"
#include "core/mesh/mesh.hpp"

namespace symm {
struct Vote {
  Failure failure;          // status ok: the rank has done its part
  uint64_t value[16] = {};  // facts that the others need
  // The index of a fact that exchange() itself tells: how many descriptors a rank sends behind
  // those of which all ranks send as many.
  static constexpr size_t kMoreFds = 15;
};

// A failure that all ranks throw alike, so that they are in step still. Any other failure of a vote
// or an exchange is this rank's own.
struct Agreed : Error {
  using Error::Error;
};

// Some ranks did not come, and `named` is one of them. That rank may live and wait itself for
// another one, which reached this rank only; then it says so when it hears that it is blamed.
struct BlameUnknown : Error {
  BlameUnknown(Failure failure, int rank) : Error(std::move(failure)), named(rank) {}
  int named;
};

// [collective] Throws Agreed if any vote is a failure, with the failure of the lowest rank that
// has one. Throws Error(timeout), or BlameUnknown, if votes did not come, and names their
// ranks. Throws Error(peer_failed).
std::vector<Vote> commit_vote(
    Group& group, const Topic& topic, const Vote& mine, Deadline deadline);

// This rank's share in an exchange: facts to agree on, and a message for every other rank, whose
// size is equal on all ranks but for message.more_fds.
struct Offer {
  uint64_t value[16] = {};  // the last one is exchange()'s
  OutgoingMessage message;
};

// The steps of an exchange. A failure of prepare(), accept() or finish() becomes this rank's
// vote. agree() looks at the facts of all ranks, so it throws one failure on all.
struct Phases {
  std::function<Offer()> prepare;
  std::function<void(std::span<const Vote> votes)> agree;
  std::function<void(int peer, Message message)> accept;
  std::function<void()> finish;  // all peers' messages were accepted
};

// Ends a call in which ranks agree, in the handler of what it threw. A failure that all ranks
// agreed on leaves them in step and is thrown again, unless a rank was late or died; after any
// other one the group cannot be used any more.
[[noreturn]] void leave_in_step(Group& group, const std::exception& error, const char* what);

// [collective] `sequence` is below 2^63, and equal on all ranks.
void exchange(Group& group, MessageKind kind, uint64_t tag, uint64_t sequence, const Phases& phases,
    Deadline deadline);
}  // namespace symm
