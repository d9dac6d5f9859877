#include "core/mesh/commit_vote.hpp"

namespace symm {
namespace {
using Known = PeerEvents::Known;

int severity(const Failure& failure) noexcept {
  switch (failure.status) {
    case Status::ok: return 0;
    case Status::timeout: return 1;
    case Status::peer_failed: return 2;
    default: return 3;
  }
}

// Of two failures the one nearer to the cause: a rank that ran out of something explains a rank that is missing. Among equals,
// the lowest rank.
const Failure& worse(const Failure& a, const Failure& b) noexcept {
  if (severity(a) != severity(b)) return severity(a) > severity(b) ? a : b;
  return a.rank <= b.rank ? a : b;
}

Failure vote_of(int rank, PeerEvents& events, WireupRecords& records, uint64_t group, Deadline deadline) {
  const bool joined = events.look([&](Known& known) { return known.joined(rank); });
  const auto is_gone = [&] { return events.look([&](Known& known) { return known.gone(rank); }); };
  std::optional<Failure> vote;
  const auto voted_or_gone = [&](Known& known) {
    vote = known.votes[static_cast<size_t>(rank)];
    // Who could not vote tells the group that it failed.
    const auto said = known.gone(rank) ? std::nullopt : known.groups.failure(rank, group);
    if (!vote && said && said->rank == rank) vote = said;
    // Who had all votes is in the group already, and has waited for this rank there.
    bool is_over = false;
    for (int peer = 0; peer < static_cast<int>(known.votes.size()); ++peer) {
      const auto failure = known.gone(peer) ? std::nullopt : known.groups.failure(peer, group);
      is_over = is_over || (failure && failure->status == Status::timeout);
    }
    return vote || known.gone(rank) || is_over;
  };
  // If it failed before it was connected, which a thread of this process can be after it has voted, its word is in the store.
  for (bool heard = !joined;;) {
    const uint64_t left_ms = deadline.remaining_ns() / 1'000'000;
    heard = heard || events.await(nullptr, Deadline::after_ms(std::min(left_ms, WireupRecords::kSliceMs)), voted_or_gone);
    if (vote) return *vote;
    try {
      if (auto failure = records.failure_of(rank, Deadline::after_ms(WireupRecords::kLookMs))) return *failure;
    } catch (const Error&) {
      // A rank that died while it voted was heard by some, who went on and left. The store tells of those that left; the death is
      // the cause.
      if (!joined || !is_gone()) throw;
      break;
    }
    if (heard || deadline.expired()) break;
  }
  if (!joined) return {};
  const int64_t pid = events.identity(rank).pid;
  const std::string name = name_of_peer(rank, pid, events.identity(rank).host);
  if (!is_gone())
    return {Status::timeout, rank, pid, name + format(" did not finish connecting within %llu ms", records.allowed_ms())};
  const std::string how =
      events.look([&](Known& known) { return known.peers.failed(rank) ? known.peers.failure(rank, rank).message : ""; });
  const bool died = how.empty() || how.starts_with(name + " died");
  return {Status::peer_failed, rank, pid, (died ? name + " died" : how) + " while the group was being formed"};
}
}  // namespace

Failure commit_vote(
    PeerEvents& events, WireupRecords& records, int rank, int size, uint64_t group, const Failure& mine, Deadline deadline) {
  const bool well = mine.status == Status::ok;
  const auto links = [&] { return with_reserve([&] { return events.look([](Known& known) { return known.links; }); }); };
  if (!well) records.publish_failure(mine);
  for (const auto& link : links())
    if (link) link->post(wire::Type::commit_vote, 0, &mine);
  SYMM_POINT("wireup.voted");
  Failure worst = mine;
  const uint64_t left_ms = std::max(deadline.remaining_ns() / 1'000'000, 2 * WireupRecords::kLookMs);
  const Deadline patience = Deadline::after_ms(well ? left_ms : std::min(left_ms, WireupRecords::kPatienceMs));
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    Failure theirs;
    try {
      theirs = vote_of(peer, events, records, group, patience);
    } catch (...) { theirs = current_failure(); }
    // Having failed, this rank takes only news from others, not their silence, nor that it cannot hear them.
    const bool silence = !well && (theirs.rank < 0 || (theirs.status == Status::timeout && theirs.rank == peer));
    if (!silence) worst = worse(worst, theirs);
  }
  // Others may still be on the way to this rank, and find it gone.
  if (!well || worst.status == Status::ok) return worst;
  records.publish_failure(worst);
  Failure told = worst;
  told.when_ns = 1;  // before anything that may have happened in the group
  for (const auto& link : links())
    if (link) link->post(wire::Type::failure, group, &told);
  if (worst.status != Status::peer_failed) return worst;
  // One that turned this rank away for want of descriptors learns by that that it cannot do without, and says so.
  try {
    if (const auto said = records.failure_of(worst.rank, Deadline::after_ms(5 * WireupRecords::kSliceMs)))
      return worse(*said, worst);
  } catch (const Error&) {  // it is dead
  }
  return worst;
}
}  // namespace symm
