// The vote that ends the making of a mesh, over the links that were just made.
#include "core/mesh/commit_vote.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/reserve.hpp"
#include "core/mesh/groups.hpp"
#include "core/mesh/mesh.hpp"
#include "core/mesh/peer_events.hpp"
#include "core/mesh/peer_link.hpp"
#include "core/mesh/wire.hpp"
#include "core/mesh/wireup_records.hpp"

namespace symm {
namespace {
using State = PeerEvents::State;

int severity(const Failure& failure) noexcept {
  switch (failure.status) {
    case Status::ok: return 0;
    case Status::timeout: return 1;
    case Status::peer_failed: return 2;
    default: return 3;
  }
}

// The failure that is nearer to the cause: a rank that ran out of something explains a rank that is
// missing. If both are equally near, that of the lower rank.
const Failure& worse(const Failure& a, const Failure& b) noexcept {
  if (severity(a) != severity(b)) return severity(a) > severity(b) ? a : b;
  return a.rank <= b.rank ? a : b;
}

// The vote of one rank.
class PeerVote {
 public:
  PeerVote(int peer, PeerEvents& events, WireupRecords& records, uint64_t group)
      : peer_(peer), events_(events), records_(records), group_(group) {}

  // Waits for the vote. Status ok also for a rank that is not connected to this one and left no
  // failure in the store.
  Failure await(Deadline deadline) {
    const bool joined = events_.look([&](State& state) { return state.joined(peer_); });

    // A rank that failed before it was connected left its failure in the store. A thread of this
    // process can be in that case though it has voted.
    for (bool over = !joined;;) {
      const Deadline slice = Deadline::after_ms(WireupRecords::kSliceMs);
      over = over || events_.await(nullptr, std::min(deadline, slice),
                         [&](State& state) { return is_over(state); });
      if (vote_) return *vote_;

      try {
        const Deadline look = Deadline::after_ms(WireupRecords::kLookMs);
        if (auto failure = records_.failure_of(peer_, look)) return *failure;
      } catch (const Error&) {
        // Some ranks heard the vote of a rank that died after it, went on and left. The store tells
        // of ranks that left; the death is the cause.
        if (!joined || !is_gone()) throw;
        break;
      }
      if (over || deadline.expired()) break;
    }
    return joined ? missing() : Failure{};
  }

 private:
  bool is_gone() const {
    return events_.look([&](State& state) { return state.gone(peer_); });
  }

  // Whether there is no vote to wait for any more. With the lock of the events.
  bool is_over(State& state) {
    vote_ = state.votes[static_cast<size_t>(peer_)];
    // A rank that could not vote has told the group that it failed.
    const auto failure = state.gone(peer_) ? std::nullopt : state.groups.failure(peer_, group_);
    if (!vote_ && failure && failure->rank == peer_) vote_ = failure;
    return vote_ || state.gone(peer_) || any_timed_out(state);
  }

  // A rank that had all votes is in the group already, and may have waited there for this rank
  // until its deadline.
  bool any_timed_out(State& state) const {
    for (int peer = 0; peer < static_cast<int>(state.votes.size()); ++peer) {
      if (state.gone(peer)) continue;
      const auto failure = state.groups.failure(peer, group_);
      if (failure && failure->status == Status::timeout) return true;
    }
    return false;
  }

  // Why there is no vote of a rank that was connected.
  Failure missing() const {
    const int64_t pid = events_.identity(peer_).pid;
    const std::string name = name_of_peer(peer_, pid, events_.identity(peer_).host);
    if (!is_gone()) {
      return {Status::timeout, peer_, pid,
          name + format(" did not finish connecting within %lu ms", records_.allowed_ms())};
    }

    const std::string how = events_.look([&](State& state) {
      return state.peers.failed(peer_) ? state.peers.failure(peer_, peer_).message : "";
    });
    const bool died = how.empty() || how.starts_with(name + " died");
    return {Status::peer_failed, peer_, pid,
        (died ? name + " died" : how) + " while the group was being formed"};
  }

  const int peer_;
  PeerEvents& events_;
  WireupRecords& records_;
  const uint64_t group_;
  std::optional<Failure> vote_;
};

void post_to_all(PeerEvents& events, wire::Type type, uint64_t group, const Failure& failure) {
  const auto links =
      with_reserve([&] { return events.look([](State& state) { return state.links; }); });
  for (const auto& link : links) {
    if (link) link->post(type, group, &failure);
  }
}

// Hears the votes of a creation's ranks.
class Votes {
 public:
  Votes(PeerEvents& events, WireupRecords& records, uint64_t group)
      : events_(events), records_(records), group_(group) {}

  // The vote of a rank, or why there is none by then.
  Failure of(int peer, Deadline until) const {
    try {
      return PeerVote(peer, events_, records_, group_).await(until);
    } catch (...) {
      return current_failure();
    }
  }

  static bool is_silence(const Failure& vote, int peer) {
    return vote.status == Status::timeout && vote.rank == peer;
  }

  // Hears silent ranks once more, and returns the worst of `worst` and of what they say. A rank
  // that is silent may live, and wait for another one that is silent too: it has not joined that
  // one, though this rank has. Where the ranks began at about one time, its deadline passes soon,
  // and then it says whom it misses. All that are silent then, too, are named.
  Failure of_silent(std::vector<int> silent, Failure worst) const {
    const Deadline again = Deadline::after_ms(silent.size() > 1 ? WireupRecords::kPatienceMs : 0);
    size_t missing = 0;
    for (const int peer : silent) {
      const Failure theirs = of(peer, again);
      if (is_silence(theirs, peer)) silent[missing++] = peer;
      worst = worse(worst, theirs);
    }
    silent.resize(missing);

    if (missing > 1 && is_silence(worst, silent[0])) {
      worst.message = records_.silence_of(silent, "finish connecting");
    }
    return worst;
  }

 private:
  PeerEvents& events_;
  WireupRecords& records_;
  const uint64_t group_;
};
}  // namespace

Failure commit_vote(PeerEvents& events, WireupRecords& records, int rank, int size, uint64_t group,
    const Failure& mine, Deadline deadline) {
  // Memory that is wanted later is had before the vote.
  std::vector<int> silent = with_reserve([&] {
    std::vector<int> ranks;
    ranks.reserve(static_cast<size_t>(size));
    return ranks;
  });

  // Vote.
  const bool well = mine.status == Status::ok;
  if (!well) records.publish_failure(mine);
  post_to_all(events, wire::Type::commit_vote, 0, mine);
  SYMM_POINT("wireup.voted");

  // Hear the others. A rank that failed does not wait for long, and takes only failures from the
  // others, not their silence, nor that it cannot hear them.
  Failure worst = mine;
  const Votes votes(events, records, group);
  Deadline patience = std::max(deadline, Deadline::after_ms(2 * WireupRecords::kLookMs));
  if (!well) patience = std::min(patience, Deadline::after_ms(WireupRecords::kPatienceMs));
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const Failure theirs = votes.of(peer, patience);
    if (Votes::is_silence(theirs, peer)) {
      silent.push_back(peer);
    } else if (well || theirs.rank >= 0) {
      worst = worse(worst, theirs);
    }
  }

  if (well && !silent.empty()) worst = votes.of_silent(std::move(silent), worst);
  if (!well || worst.status == Status::ok) return worst;

  // Pass the failure on: other ranks may still be connecting to this one, and find it gone. The
  // time puts it before anything that may have happened in the group.
  records.publish_failure(worst);
  Failure told = worst;
  told.when_ns = 1;
  post_to_all(events, wire::Type::failure, group, told);
  if (worst.status != Status::peer_failed) return worst;

  // A peer that refused this rank because it ran out of descriptors reports that as its own
  // failure.
  try {
    const auto failure =
        records.failure_of(worst.rank, Deadline::after_ms(5 * WireupRecords::kSliceMs));
    if (failure) return worse(*failure, worst);
  } catch (const Error&) {
    // The peer is dead.
  }
  return worst;
}
}  // namespace symm
