// SPDX-License-Identifier: Apache-2.0
//
// Groups on a mesh, and what arrives: who left, who died, why a group is revoked.
#include <algorithm>

#include "core/base/log.hpp"
#include "core/mesh/mesh_impl.hpp"

namespace symm {
namespace {

// News of groups that are not attached yet come from ranks a step ahead; a few are ever waiting. The oldest of more are
// forgotten.
constexpr size_t kMaxEarly = 1024;
constexpr size_t kMaxClosed = 1024;

}  // namespace

int MeshImpl::Attached::index_of(int mesh_rank) const noexcept {
  const auto found = std::find(members.begin(), members.end(), mesh_rank);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

void MeshImpl::give(std::vector<Notice> notices) {
  for (Notice& notice : notices) {
    if (notice.failure) {
      notice.revocation->revoke(std::move(*notice.failure));
    } else {
      notice.revocation->depart(notice.rank, notice.pid);
    }
  }
}

int MeshImpl::rank_in(uint64_t group, int peer) const {
  const auto found = groups_.find(group);
  const int index = found == groups_.end() ? -1 : found->second.index_of(peer);
  return index >= 0 ? index : peer;
}

Failure MeshImpl::describe_failure(int peer, int as_rank) const {
  const int64_t pid = at(peer).identity.pid;
  return {Status::peer_failed, as_rank, pid, name_of_peer(as_rank, pid) + " " + at(peer).how};
}

bool MeshImpl::is_closed(uint64_t group) const { return std::find(closed_.begin(), closed_.end(), group) != closed_.end(); }

std::optional<Failure> MeshImpl::trouble_with(int peer, uint64_t group) const {
  const Peer& it = at(peer);
  const int as_rank = rank_in(group, peer);
  if (it.state == State::failed) return describe_failure(peer, as_rank);
  bool gone = it.state == State::left;
  const auto found = groups_.find(group);
  if (found != groups_.end()) {
    const int index = found->second.index_of(peer);
    gone = gone || (index >= 0 && found->second.left[static_cast<size_t>(index)]);
  } else {
    for (const Early& early : it.early) {
      if (early.group != group) continue;
      if (early.failure) return early.failure;
      gone = true;
    }
  }
  if (!gone) return std::nullopt;
  return Failure{Status::peer_failed, as_rank, it.identity.pid, name_of_peer(as_rank, it.identity.pid) + " left the group"};
}

void MeshImpl::attach(uint64_t group, std::vector<int> members, std::shared_ptr<Revocation> revocation) {
  require_process();
  std::vector<Notice> notices;
  {
    const std::lock_guard lock(mutex_);
    Attached attached{std::move(members), {}, std::move(revocation)};
    attached.left.resize(attached.members.size());
    for (size_t i = 0; i < attached.members.size(); ++i) {
      const int member = attached.members[i];
      if (member == rank_) continue;
      Peer& peer = at(member);
      const int as_rank = static_cast<int>(i);
      bool left = peer.state == State::left;
      for (auto early = peer.early.begin(); early != peer.early.end();) {
        if (early->group != group) {
          ++early;
          continue;
        }
        if (early->failure) {
          notices.push_back({attached.revocation, std::move(early->failure), as_rank, peer.identity.pid});
        } else {
          left = true;
        }
        early = peer.early.erase(early);
      }
      if (left) {
        attached.left[i] = true;
        notices.push_back({attached.revocation, std::nullopt, as_rank, peer.identity.pid});
      } else if (peer.state == State::failed) {
        notices.push_back({attached.revocation, describe_failure(member, as_rank), as_rank, peer.identity.pid});
      }
    }
    if (!groups_.emplace(group, std::move(attached)).second) throw Error(Status::internal, "group attached twice");
  }
  give(std::move(notices));
  changed();
}

void MeshImpl::detach(uint64_t group) noexcept {
  if (in_child()) return;
  pass_on_failure(group);
  std::vector<int> members;
  {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(group);
    if (found == groups_.end()) return;
    members = std::move(found->second.members);
    groups_.erase(found);
    inbox_.drop_group(group);
    closed_.push_back(group);
    if (closed_.size() > kMaxClosed) closed_.pop_front();
  }
  for (const int member : members) {
    if (member != rank_) tell(member, wire::Type::leave, group, nullptr);
  }
}

void MeshImpl::broadcast_failure(uint64_t group, const Failure& failure) noexcept {
  if (in_child()) return;
  std::vector<int> members;
  {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(group);
    if (found == groups_.end()) return;
    members = found->second.members;
  }
  for (const int member : members) {
    if (member != rank_) tell(member, wire::Type::failure, group, &failure);
  }
}

// Who leaves a revoked group says why first: a peer that has not heard yet, and waits for this rank, would take the leaving for
// the reason.
void MeshImpl::pass_on_failure(uint64_t group) noexcept {
  std::shared_ptr<Revocation> revocation;
  {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(group);
    if (found != groups_.end()) revocation = found->second.revocation;
  }
  try {
    if (revocation && revocation->revoked()) broadcast_failure(group, revocation->failure());
  } catch (const std::bad_alloc&) {
    return;
  }
}

void MeshImpl::on_packet(int source, const wire::Packet& packet, std::vector<Fd> fds, bool fds_lost) {
  const wire::Header& header = packet.header;
  switch (header.type) {
    case wire::Type::leave: return on_leave(source, header.group);
    case wire::Type::bye: return on_bye(source);
    case wire::Type::failure: return on_failure(source, header.group, packet.failure);
    case wire::Type::verdict: return on_verdict(source, packet.failure);
    case wire::Type::hello:
    case wire::Type::identity:
    case wire::Type::address: return on_gone(source, "broke the protocol: it introduced itself twice");
    default: break;
  }
  Arrival arrival;
  arrival.message.body.assign(packet.body.begin(), packet.body.end());
  arrival.message.fds = std::move(fds);
  arrival.fds_lost = fds_lost;
  on_message(source, {static_cast<MessageKind>(header.type), header.group, header.tag, header.sequence}, std::move(arrival));
}

void MeshImpl::on_message(int source, const Topic& topic, Arrival arrival) {
  bool kept = true;
  {
    const std::lock_guard lock(mutex_);
    if (at(source).state == State::failed || is_closed(topic.group)) return;
    kept = inbox_.put(source, topic, std::move(arrival));
  }
  if (!kept) return on_gone(source, "broke the protocol: it sent more than anybody reads");
  changed();
}

void MeshImpl::note_early(int source, Early early) {
  if (is_closed(early.group)) return;
  std::deque<Early>& news = at(source).early;
  news.push_back(std::move(early));
  if (news.size() > kMaxEarly) news.pop_front();
}

void MeshImpl::on_leave(int source, uint64_t group) {
  std::vector<Notice> notices;
  {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(group);
    if (found == groups_.end()) {
      note_early(source, {group, std::nullopt});
    } else if (const int index = found->second.index_of(source); index >= 0 && !found->second.left[static_cast<size_t>(index)]) {
      found->second.left[static_cast<size_t>(index)] = true;
      notices.push_back({found->second.revocation, std::nullopt, index, at(source).identity.pid});
    }
  }
  give(std::move(notices));
  changed();
}

void MeshImpl::on_bye(int source) {
  std::vector<Notice> notices;
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = at(source);
    if (peer.state == State::failed || peer.state == State::left) return;
    peer.state = State::left;
    for (auto& [id, group] : groups_) {
      const int index = group.index_of(source);
      if (index < 0 || group.left[static_cast<size_t>(index)]) continue;
      group.left[static_cast<size_t>(index)] = true;
      notices.push_back({group.revocation, std::nullopt, index, peer.identity.pid});
    }
  }
  give(std::move(notices));
  changed();
}

void MeshImpl::on_failure(int source, uint64_t group, Failure failure) {
  std::vector<Notice> notices;
  {
    const std::lock_guard lock(mutex_);
    const auto found = groups_.find(group);
    if (found == groups_.end()) {
      note_early(source, {group, std::move(failure)});
    } else if (const int index = found->second.index_of(source); index >= 0) {
      if (failure.rank >= static_cast<int>(found->second.members.size())) failure.rank = index;
      notices.push_back({found->second.revocation, std::move(failure), index, 0});
    }
  }
  give(std::move(notices));
  changed();
}

void MeshImpl::on_verdict(int source, Failure verdict) {
  {
    const std::lock_guard lock(mutex_);
    if (!at(source).verdict) at(source).verdict = std::move(verdict);
  }
  changed();
}

void MeshImpl::on_gone(int source, const std::string& how) {
  std::vector<Notice> notices;
  {
    const std::lock_guard lock(mutex_);
    Peer& peer = at(source);
    if (peer.state == State::left || peer.state == State::failed) return;
    peer.state = State::failed;
    peer.how = how;
    for (auto& [id, group] : groups_) {
      const int index = group.index_of(source);
      if (index < 0 || group.left[static_cast<size_t>(index)]) continue;
      notices.push_back({group.revocation, describe_failure(source, index), index, peer.identity.pid});
    }
  }
  give(std::move(notices));
  changed();
}

void MeshImpl::on_confirmed_dead(int source, const std::string& manner) {
  int64_t pid = 0;
  bool left = false;
  {
    const std::lock_guard lock(mutex_);
    at(source).confirmed_dead = true;
    pid = at(source).identity.pid;
    left = at(source).state == State::left;
  }
  // A copy of its socket may be open in a child of it, so that nothing was heard of its death.
  on_gone(source, manner.empty() ? "died" : "died: " + manner);
  log::write(left ? log::Level::debug : log::Level::info, "%s is gone%s%s", name_of_peer(source, pid).c_str(),
             manner.empty() ? "" : ": ", manner.c_str());
}

}  // namespace symm
