// The inbox of a mesh: what links report is kept here under one lock, and threads wait for it.
#include "core/mesh/peer_events.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/log.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/mesh/groups.hpp"
#include "core/mesh/mesh.hpp"
#include "core/mesh/wire.hpp"

namespace symm {
void PeerEvents::tell(Notices notices) {
  for (Notice& notice : notices) {
    const bool own = notice.peer < 0;
    if (!notice.failure) {
      notice.revocation->depart(notice.rank);
      notice.told = true;
    } else {
      const auto effect =
          notice.revocation->revoke(std::move(*notice.failure), notice.peer, notice.seen);
      notice.told = !effect.tell && !(own && effect.counts);
    }
  }
  tell_change(changes_);

  for (const Notice& notice : notices) {
    if (notice.told) continue;
    with_reserve([&] {
      const Failure cause = notice.revocation->cause();
      for (const int member :
          look([&](State& state) { return state.groups.others(notice.group); })) {
        if (const auto link =
                look([&](State& state) { return state.links[static_cast<size_t>(member)]; })) {
          link->post(wire::Type::failure, notice.group, &cause);
        }
      }
    });
  }
}

void PeerEvents::on_message(int peer, const Topic& topic, Arrival arrival) {
  bool kept = true;
  change([&](State& state) -> Notices {
    const bool is_wanted = !state.mesh_is_gone && !state.groups.detached(topic.group);
    if (is_wanted && !state.peers.failed(peer)) {
      kept = state.inbox.put(peer, topic, std::move(arrival));
    }
    return {};
  });
  if (!kept) on_lost(peer, "broke the protocol: it sent more than anybody reads");
}

void PeerEvents::on_post(int peer, wire::Type type, uint64_t group, Failure failure) {
  // Kept outside: the change is repeated if it throws, and the peer leaves only once.
  bool first = false;

  change([&](State& state) -> Notices {
    auto& vote = state.votes[static_cast<size_t>(peer)];
    switch (type) {
      case wire::Type::leave: return state.groups.leave(peer, group);
      case wire::Type::bye:
        first = first || state.peers.leave(peer);
        return first ? state.groups.leave_all(peer) : Notices{};
      case wire::Type::failure: return state.groups.revoke(peer, group, failure);
      default: break;
    }
    if (!vote) vote = failure;
    return {};
  });
}

void PeerEvents::on_gone(int peer, const std::string& how) { on_lost(peer, how, nullptr, false); }

void PeerEvents::on_lost(
    int peer, const std::string& how, const Failure* local_failure, bool alone) {
  // Kept outside: the change is repeated if it throws, and the peer fails only once.
  bool first = false;
  change([&](State& state) {
    first = first || state.peers.fail(peer, how);
    return first ? state.groups.fail_all(peer, alone, local_failure) : Notices{};
  });
}

void PeerEvents::on_death(int peer, const std::string& manner) {
  const bool left = look([&](State& state) { return state.peers.left(peer); });
  // If a child of the peer has a copy of its socket, the socket has not told of the death.
  on_gone(peer, manner.empty() ? "died" : "died: " + manner);
  log::write(left ? log::Level::debug : log::Level::info, "%s is gone%s%s",
      name_of_peer(peer, identity(peer).pid).c_str(), manner.empty() ? "" : ": ", manner.c_str());
}

void PeerEvents::stop_links() noexcept {
  const size_t count = look([](State& state) { return state.links.size(); });
  for (size_t peer = 0; peer < count; ++peer) {
    const std::shared_ptr<PeerLink> link = look([&](State& state) {
      const bool stays = state.groups.follows(static_cast<int>(peer));
      return stays ? nullptr : std::exchange(state.links[peer], nullptr);
    });
    if (link) link->stop();
  }
}

bool Inbox::put(int source, const Topic& topic, Arrival&& arrival) {
  Source& from = sources_[static_cast<size_t>(source)];
  const size_t fds = arrival.message.fds.size();
  if (from.messages + 1 > kMaxMessages || from.fds + fds > kMaxFds) return false;

  from.unread[topic].push_back(std::move(arrival));
  ++from.messages;
  from.fds += fds;
  return true;
}

std::optional<Arrival> Inbox::take(int source, const Topic& topic) {
  Source& from = sources_[static_cast<size_t>(source)];
  const auto found = from.unread.find(topic);
  if (found == from.unread.end()) return std::nullopt;

  std::optional<Arrival> arrival(std::move(found->second.front()));
  found->second.pop_front();
  if (found->second.empty()) from.unread.erase(found);

  --from.messages;
  from.fds -= arrival->message.fds.size();
  return arrival;
}

std::optional<Topic> Inbox::other(int source, const Topic& topic) const {
  std::optional<Topic> found;
  for (const auto& [other, arrivals] : sources_[static_cast<size_t>(source)].unread) {
    if (other == topic) return std::nullopt;
    const bool alike =
        other.kind == topic.kind && other.group == topic.group && other.tag != topic.tag;
    if (alike && other.sequence % 2 == 0 && !found) found = other;
  }
  return found;
}

std::optional<uint64_t> Inbox::highest_tag(int source, MessageKind kind, uint64_t group) const {
  std::optional<uint64_t> highest;
  for (const auto& [topic, arrivals] : sources_[static_cast<size_t>(source)].unread) {
    if (topic.kind == kind && topic.group == group) {
      highest = std::max(highest.value_or(0), topic.tag);
    }
  }
  return highest;
}

void Inbox::drop_group(uint64_t group) {
  for (Source& from : sources_) {
    std::erase_if(from.unread, [&](const auto& unread) {
      if (unread.first.group != group) return false;
      from.messages -= unread.second.size();
      for (const Arrival& arrival : unread.second) {
        from.fds -= arrival.message.fds.size();
      }
      return true;
    });
  }
}
}  // namespace symm
