// Messages that arrived and were not yet asked for, by source and topic. What one source may leave unread is bounded.
#pragma once

#include <deque>
#include <map>
#include "core/mesh/mesh.hpp"

namespace symm {
struct Arrival {
  Message message;
  bool fds_lost = false;  // this process was out of descriptors when it came
};

class Inbox {
 public:
  // Far above what ranks in step leave: a few messages for each call that some thread of theirs is inside.
  static constexpr size_t kMaxMessages = 4096;  // of one source
  static constexpr size_t kMaxFds = 1024;

  explicit Inbox(int sources) : unread_(static_cast<size_t>(sources)) {}

  // False if the source has too much unread already; then nothing is kept, nor is anything when it throws.
  bool put(int source, const Topic& topic, Arrival&& arrival);
  // The oldest on that topic, if any.
  std::optional<Arrival> take(int source, const Topic& topic);
  // One that came from the source with another tag, is of an even sequence, and was not asked for yet, where none came on
  // `topic`.
  std::optional<Topic> other(int source, const Topic& topic) const;
  void drop_group(uint64_t group);
 private:
  struct Key {
    uint64_t group;
    int source;
    MessageKind kind;
    uint64_t tag;
    uint64_t sequence;
    auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr): false alarm of clang-tidy 14
  };
  struct Unread {
    size_t messages = 0;
    size_t fds = 0;
  };
  std::map<Key, std::deque<Arrival>> messages_;
  std::vector<Unread> unread_;
};
}  // namespace symm
