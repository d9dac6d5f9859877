#include "core/mesh/inbox.hpp"

namespace symm {
bool Inbox::put(int source, const Topic& topic, Arrival&& arrival) {
  Unread& unread = unread_[static_cast<size_t>(source)];
  if (unread.messages + 1 > kMaxMessages || unread.fds + arrival.message.fds.size() > kMaxFds) return false;
  const size_t fds = arrival.message.fds.size();
  messages_[{topic.group, source, topic.kind, topic.tag, topic.sequence}].push_back(std::move(arrival));
  ++unread.messages;
  unread.fds += fds;
  return true;
}

std::optional<Arrival> Inbox::take(int source, const Topic& topic) {
  const auto found = messages_.find({topic.group, source, topic.kind, topic.tag, topic.sequence});
  if (found == messages_.end()) return std::nullopt;
  std::optional<Arrival> arrival(std::move(found->second.front()));
  found->second.pop_front();
  if (found->second.empty()) messages_.erase(found);
  Unread& unread = unread_[static_cast<size_t>(source)];
  --unread.messages;
  unread.fds -= arrival->message.fds.size();
  return arrival;
}

std::optional<Topic> Inbox::other(int source, const Topic& topic) const {
  std::optional<Topic> found;
  for (auto at = messages_.lower_bound({topic.group, source, topic.kind, 0, 0});
       at != messages_.end() && at->first.group == topic.group && at->first.source == source && at->first.kind == topic.kind;
       ++at) {
    if (at->first.tag == topic.tag && at->first.sequence == topic.sequence) return std::nullopt;
    if (at->first.tag != topic.tag && at->first.sequence % 2 == 0 && !found)
      found = Topic{topic.kind, topic.group, at->first.tag, at->first.sequence};
  }
  return found;
}

void Inbox::drop_group(uint64_t group) {
  // Groups come first in the order of keys, so a group's messages lie together.
  auto from = messages_.lower_bound({group, 0, MessageKind{}, 0, 0});
  while (from != messages_.end() && from->first.group == group) {
    Unread& unread = unread_[static_cast<size_t>(from->first.source)];
    for (const Arrival& arrival : from->second) {
      --unread.messages;
      unread.fds -= arrival.message.fds.size();
    }
    from = messages_.erase(from);
  }
}
}  // namespace symm
