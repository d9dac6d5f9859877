// The events of a mesh's peers, and the waits for them. The links tell of events: on the monitor
// thread for peers in other processes, on the sending rank's thread for ranks of this process. No
// lock is held while a revocation or a log callback is called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/futex.hpp"
#include "core/base/reserve.hpp"
#include "core/base/revocation.hpp"
#include "core/mesh/groups.hpp"
#include "core/mesh/mesh.hpp"
#include "core/mesh/peer_link.hpp"
#include "core/mesh/wire.hpp"
#include "core/socket/monitor.hpp"

namespace symm {
struct Arrival {
  Message message;
  bool fds_lost = false;  // this process was out of descriptors when the message came
};

// Messages that arrived and that no call has asked for yet, by source and topic. The number of
// messages that one source may leave unread is bounded.
class Inbox {
 public:
  // Limits for one source, far above what ranks in step leave: a few messages for each call that a
  // thread of theirs is inside, and the descriptors of 31 blocks that lie in 512 allocations each,
  // of whose messages no more than these would be taken either.
  static constexpr size_t kMaxMessages = 4096;
  static constexpr size_t kMaxFds = 16'384;

  explicit Inbox(int sources) : sources_(static_cast<size_t>(sources)) {}

  // False if the source has too much unread already. If it returns false or throws, nothing is
  // kept.
  bool put(int source, const Topic& topic, Arrival&& arrival);
  // The oldest message on that topic, if any.
  std::optional<Arrival> take(int source, const Topic& topic);
  // The topic of an unread message of the source that differs in its tag, and has an even sequence
  // number. None if a message has come on `topic`.
  std::optional<Topic> other(int source, const Topic& topic) const;
  // The highest tag of the source's unread messages of that kind and group.
  std::optional<uint64_t> highest_tag(int source, MessageKind kind, uint64_t group) const;
  void drop_group(uint64_t group);

 private:
  struct Source {
    std::map<Topic, std::deque<Arrival>> unread;
    size_t messages = 0;
    size_t fds = 0;
  };
  std::vector<Source> sources_;
};

class PeerEvents {
 public:
  // All that is known of the peers.
  struct State {
    State(int rank, int size)
        : peers(size),
          groups(rank, size, peers),
          inbox(size),
          votes(static_cast<size_t>(size)),
          links(static_cast<size_t>(size)) {}
    bool joined(int peer) const { return links[static_cast<size_t>(peer)] != nullptr; }
    bool gone(int peer) const { return peers.left(peer) || peers.failed(peer); }
    Peers peers;
    Groups groups;
    Inbox inbox;
    // Each rank's vote, which says how connecting went; status ok is a yes.
    std::vector<std::optional<Failure>> votes;
    std::vector<std::shared_ptr<PeerLink>> links;  // null: this rank, or not connected yet
    bool mesh_is_gone = false;
  };

  PeerEvents(int rank, int size) : state_(rank, size) {}

  void on_message(int peer, const Topic& topic, Arrival arrival);
  // The peer has sent a message of the mesh itself, by PeerLink::post().
  void on_post(int peer, wire::Type type, uint64_t group, Failure failure);
  // The connection has closed. Unless the peer said bye before, it failed.
  void on_gone(int peer, const std::string& how);
  // The peer cannot be heard any more: it failed. `local_failure`: the failure of this rank that is
  // the cause, or null. If `alone`, no other rank sees the failure, so this rank tells them.
  void on_lost(
      int peer, const std::string& how, const Failure* local_failure = nullptr, bool alone = true);
  void on_death(int peer, const std::string& manner);
  // Stops the links to all peers but those that are followed in some group.
  void stop_links() noexcept;

  // Calls look(State&) with the lock held.
  template <class Look>
  auto look(Look look) {
    const std::lock_guard lock(mutex_);
    return look(state_);
  }
  // Calls change(State&) with the lock held, tells the notices that it returns, and wakes all
  // waits. If change() throws for want of memory, it is called a second time.
  template <class Change>
  void change(Change change) {
    tell(with_reserve([&] { return look(std::ref(change)); }));
  }
  // Waits until look(State&) is true; false when the deadline passes first, and what had come by
  // then does not make it true either. Throws the failure of `revocation` (may be null).
  template <class Look>
  bool await(const Revocation* revocation, Deadline deadline, Look until) {
    return await_heard(changes_, deadline, [&] { return look(until); }, revocation);
  }
  // Needs no lock: identities are written only while the mesh is made.
  const PeerIdentity& identity(int peer) const { return state_.peers.identity(peer); }

 private:
  void tell(Notices notices);

  Word changes_{0};  // grows with every event; receivers sleep on it
  std::mutex mutex_;
  State state_;
};
}  // namespace symm
