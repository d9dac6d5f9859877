// The groups of a mesh, the ranks that left them, and the reasons why they were revoked. Called
// with the lock of PeerEvents held; it sends no messages itself.
#include "core/mesh/groups.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/wait.hpp"

namespace symm {
namespace {
// Ranks that are a step ahead send news of groups that are not attached here yet. Only a few ever
// wait; if there are more, the oldest are forgotten.
constexpr size_t kMaxEarlyMessages = 1024;
constexpr size_t kMaxDetached = 1024;
}  // namespace

int Groups::Attached::index_of(int mesh_rank) const noexcept {
  const auto found = std::find(members.begin(), members.end(), mesh_rank);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

int Groups::Attached::index_if_in(int mesh_rank) const noexcept {
  const int index = index_of(mesh_rank);
  return index >= 0 && left[static_cast<size_t>(index)] ? -1 : index;
}

Notices Groups::attach(
    uint64_t group, std::vector<int> members, std::shared_ptr<Revocation> revocation) {
  Notices notices;
  Attached attached{std::move(members), {}, std::move(revocation)};
  attached.left.resize(attached.members.size());

  for (size_t i = 0; i < attached.members.size(); ++i) {
    const int member = attached.members[i];
    if (member == rank_) continue;
    const int as_rank = static_cast<int>(i);
    bool left = peers_.left(member);
    for (const Early& news : early(member)) {
      if (news.group != group) continue;
      if (news.failure) {
        notices.push_back({group, member, attached.revocation,
            of_member(*news.failure, as_rank, member), as_rank});
      } else {
        left = true;
      }
    }

    if (left) {
      attached.left[i] = true;
      notices.push_back({group, member, attached.revocation, std::nullopt, as_rank});
    } else if (peers_.failed(member)) {
      notices.push_back(
          {group, member, attached.revocation, peers_.failure(member, as_rank), as_rank, true});
    }
  }

  if (!groups_.emplace(group, std::move(attached)).second) {
    throw Error(Status::internal, "group attached twice");
  }
  for (auto& news : early_) {
    std::erase_if(news, [=](const Early& one) { return one.group == group; });
  }
  return notices;
}

std::vector<int> Groups::detach(uint64_t group) {
  std::vector<int> members = others(group);
  if (groups_.count(group) == 0) return {};
  detached_.push_back(group);
  groups_.erase(group);
  if (detached_.size() > kMaxDetached) detached_.pop_front();
  return members;
}

bool Groups::detached(uint64_t group) const {
  return std::find(detached_.begin(), detached_.end(), group) != detached_.end();
}

std::vector<uint64_t> Groups::attached() const {
  std::vector<uint64_t> ids;
  for (const auto& [id, group] : groups_) {
    ids.push_back(id);
  }
  return ids;
}

std::vector<int> Groups::others(uint64_t group) const {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return {};
  std::vector<int> members = found->second.members;
  std::erase(members, rank_);
  return members;
}

std::vector<int> Groups::concerned(uint64_t group) const {
  if (groups_.count(group) != 0 || detached(group)) return others(group);
  std::vector<int> all(early_.size());
  std::iota(all.begin(), all.end(), 0);
  std::erase(all, rank_);
  return all;
}

// Completes a failure that came from a member of a group. A rank that failed before it entered the
// group does not know its own number there, and says -1.
Failure Groups::of_member(Failure failure, int index, int peer) const {
  if (failure.rank >= 0) return failure;
  failure.rank = index;
  failure.pid = peers_.identity(peer).pid;
  failure.message = peers_.name(peer, index) + ": " + failure.message;
  return failure;
}

std::shared_ptr<Revocation> Groups::revocation(uint64_t group) const {
  const auto found = groups_.find(group);
  return found == groups_.end() ? nullptr : found->second.revocation;
}

int Groups::rank_in(uint64_t group, int peer) const {
  const auto found = groups_.find(group);
  const int index = found == groups_.end() ? -1 : found->second.index_of(peer);
  return index >= 0 ? index : peer;
}

bool Groups::has_left(int peer, uint64_t group) const {
  const auto followed = followed_.find(group);
  if (followed != followed_.end() && !followed->second[static_cast<size_t>(peer)]) return true;
  const auto found = groups_.find(group);
  const int index = found == groups_.end() ? -1 : found->second.index_of(peer);
  return peers_.left(peer) || (index >= 0 && found->second.left[static_cast<size_t>(index)]);
}

void Groups::follow(uint64_t group) {
  std::vector<bool> still_in(early_.size());
  for (const int member : others(group)) {
    still_in[static_cast<size_t>(member)] = !has_left(member, group);
  }
  followed_.insert_or_assign(group, std::move(still_in));
}

bool Groups::follows(int peer) const {
  return std::any_of(followed_.begin(), followed_.end(), [&](const auto& followed) {
    return followed.second[static_cast<size_t>(peer)] && !peers_.left(peer);
  });
}

std::optional<Failure> Groups::failure(int peer, uint64_t group) const {
  const int as_rank = rank_in(group, peer);
  if (peers_.failed(peer)) return peers_.failure(peer, as_rank);

  // Early news exist only of groups that are not attached.
  bool gone = has_left(peer, group);
  for (const Early& news : early_[static_cast<size_t>(peer)]) {
    if (news.group != group) continue;
    if (news.failure) return news.failure;
    gone = true;
  }

  if (!gone) return std::nullopt;
  return Failure{Status::peer_failed, as_rank, peers_.identity(peer).pid,
      peers_.name(peer, as_rank) + " left the group"};
}

void Groups::note_early(int peer, Early news) {
  if (detached(news.group)) return;
  early(peer).push_back(std::move(news));
  if (early(peer).size() > kMaxEarlyMessages) early(peer).pop_front();
}

Notices Groups::leave(int peer, uint64_t group) {
  if (const auto followed = followed_.find(group); followed != followed_.end()) {
    followed->second[static_cast<size_t>(peer)] = false;
  }
  const auto found = groups_.find(group);
  if (found == groups_.end()) {
    note_early(peer, {group, std::nullopt});
    return {};
  }
  const int index = found->second.index_if_in(peer);
  if (index < 0) return {};
  Notices notices{{group, peer, found->second.revocation, std::nullopt, index}};
  found->second.left[static_cast<size_t>(index)] = true;
  return notices;
}

Notices Groups::revoke(int peer, uint64_t group, Failure failure) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) {
    note_early(peer, {group, std::move(failure)});
    return {};
  }
  const int index = found->second.index_of(peer);
  if (index < 0) return {};
  if (failure.rank >= static_cast<int>(found->second.members.size())) failure.rank = index;
  return {
      {group, peer, found->second.revocation, of_member(std::move(failure), index, peer), index}};
}

Notices Groups::leave_all(int peer) {
  Notices notices;
  notices.reserve(groups_.size());
  for (auto& [id, group] : groups_) {
    const int index = group.index_if_in(peer);
    if (index < 0) continue;
    group.left[static_cast<size_t>(index)] = true;
    notices.push_back({id, peer, group.revocation, std::nullopt, index});
  }
  return notices;
}

Notices Groups::fail_all(int peer, bool alone, const Failure* local_failure) {
  Notices notices;
  for (const auto& [id, group] : groups_) {
    const int index = group.index_if_in(peer);
    if (index < 0) continue;

    Failure failure = peers_.failure(peer, index);
    if (local_failure != nullptr) {
      const int own = group.index_of(rank_);
      const int64_t pid = peers_.identity(rank_).pid;
      failure = {local_failure->status, own, pid, peers_.name(rank_, own) + ": " + failure.message,
          local_failure->os_error};
    }

    const int from = alone ? -1 : peer;
    notices.push_back({id, from, group.revocation, std::move(failure), index, !alone});
  }
  return notices;
}

std::string name_of_peer(int rank, int64_t pid, const std::string& host) {
  if (!host.empty()) return format("rank %d (pid %ld on %s)", rank, pid, host.c_str());
  return pid > 0 ? format("rank %d (pid %ld)", rank, pid) : format("rank %d", rank);
}

void Peers::join(int peer, const PeerIdentity& identity) {
  at(peer).identity = identity;
  if (at(peer).state == State::absent) at(peer).state = State::here;
}

bool Peers::go(int peer, State state) {
  if (left(peer) || failed(peer)) return false;
  at(peer).state = state;
  return true;
}

bool Peers::fail(int peer, const std::string& how) {
  std::string copy = how;
  if (!go(peer, State::failed)) return false;
  at(peer).how = std::move(copy);
  return true;
}

Failure Peers::failure(int peer, int as_rank) const {
  return {
      Status::peer_failed, as_rank, identity(peer).pid, name(peer, as_rank) + " " + at(peer).how};
}
}  // namespace symm
