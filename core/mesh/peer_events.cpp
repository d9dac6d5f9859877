#include "core/mesh/peer_events.hpp"

#include <cstddef>
#include <cstdint>
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
      const Failure cause = notice.revocation->failure();
      for (const int member :
          look([&](Known& known) { return known.groups.others(notice.group); })) {
        if (const auto link =
                look([&](Known& known) { return known.links[static_cast<size_t>(member)]; })) {
          link->post(wire::Type::failure, notice.group, &cause);
        }
      }
    });
  }
}

void PeerEvents::on_message(int peer, const Topic& topic, Arrival arrival) {
  bool kept = true;
  change([&](Known& known) -> Notices {
    if (!known.peers.failed(peer) && !known.groups.detached(topic.group)) {
      kept = known.inbox.put(peer, topic, std::move(arrival));
    }
    return {};
  });
  if (!kept) on_lost(peer, "broke the protocol: it sent more than anybody reads");
}

void PeerEvents::on_post(int peer, wire::Type type, uint64_t group, Failure failure) {
  bool first = false;
  change([&](Known& known) -> Notices {
    auto& vote = known.votes[static_cast<size_t>(peer)];
    switch (type) {
      case wire::Type::leave: return known.groups.leave(peer, group);
      case wire::Type::bye:
        return (first = first || known.peers.leave(peer)) ? known.groups.leave_all(peer)
                                                          : Notices{};
      case wire::Type::failure: return known.groups.revoke(peer, group, failure);
      default: break;
    }
    if (!vote) vote = failure;
    return {};
  });
}

void PeerEvents::on_gone(int peer, const std::string& how) { on_lost(peer, how, nullptr, false); }

void PeerEvents::on_lost(int peer, const std::string& how, const Failure* here, bool alone) {
  bool first = false;
  change([&](Known& known) {
    return (first = first || known.peers.fail(peer, how)) ? known.groups.fail_all(peer, alone, here)
                                                          : Notices{};
  });
}

void PeerEvents::on_death(int peer, const std::string& manner) {
  const bool left = look([&](Known& known) { return known.peers.left(peer); });
  // A copy of its socket may be open in a child of it, so that nothing was heard of its death.
  on_gone(peer, manner.empty() ? "died" : "died: " + manner);
  log::write(left ? log::Level::debug : log::Level::info, "%s is gone%s%s",
      name_of_peer(peer, identity(peer).pid).c_str(), manner.empty() ? "" : ": ", manner.c_str());
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
