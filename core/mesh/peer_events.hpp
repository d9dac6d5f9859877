// What has come from the peers of a mesh, and whoever waits for more
// of it. Events are told by the links: on the monitor thread for
// processes, on the sending rank's thread for ranks of this process.
// No lock is held while a revocation or a log callback is called.
#pragma once

#include <deque>
#include <map>

#include "core/base/reserve.hpp"
#include "core/mesh/groups.hpp"
#include "core/mesh/mesh.hpp"
#include "core/mesh/peer_link.hpp"

namespace symm {
// Messages that arrived and were not yet asked for, by source and topic. What one
// source may leave unread is bounded.
struct Arrival {
  Message message;
  bool fds_lost = false;  // this process was out of descriptors when it came
};

class Inbox {
 public:
  // Far above what ranks in step leave: a few messages
  // for each call that some thread of theirs is inside.
  static constexpr size_t kMaxMessages = 4096;  // of one source
  static constexpr size_t kMaxFds = 1024;

  explicit Inbox(int sources) : sources_(static_cast<size_t>(sources)) {}

  // False if the source has too much unread already; then
  // nothing is kept, nor is anything when it throws.
  bool put(int source, const Topic& topic, Arrival&& arrival);
  // The oldest on that topic, if any.
  std::optional<Arrival> take(int source, const Topic& topic);
  // One that came from the source with another tag, is of an even sequence, and was not
  // asked for yet, where none came on `topic`.
  std::optional<Topic> other(int source, const Topic& topic) const;
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
  struct Known {
    Known(int rank, int size)
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
    // how connecting went for each; status ok is a yes
    std::vector<std::optional<Failure>> votes;
    std::vector<std::shared_ptr<PeerLink>> links;  // null: this rank, or not connected yet
  };

  PeerEvents(int rank, int size) : known_(rank, size) {}

  void on_message(int peer, const Topic& topic, Arrival arrival);
  void on_post(int peer, wire::Type type, uint64_t group, Failure failure);  // as PeerLink::post()
  // unless it said bye, it failed
  void on_gone(int peer, const std::string& how);
  // If this rank sees that `alone`, it tells: the peer is to
  // blame, or what happened here, so that it cannot be heard.
  void on_lost(int peer, const std::string& how, const Failure* here = nullptr, bool alone = true);
  void on_death(int peer, const std::string& manner);

  // look(Known&) with the lock held.
  template <class Look>
  auto look(Look look) {
    const std::lock_guard lock(mutex_);
    return look(known_);
  }
  // change(Known&) with the lock held, which returns what revocations are to be told;
  // then whoever waits looks again. It may be called a second time, if it throws.
  template <class Change>
  void change(Change change) {
    tell(with_reserve([&] { return look(std::ref(change)); }));
  }
  // Until look(Known&) is true; false when the deadline passes first. Throws the
  // failure of `revocation` (may be null).
  template <class Look>
  bool await(const Revocation* revocation, Deadline deadline, Look until) {
    return await_change(changes_, deadline, [&] { return look(until); }, revocation);
  }
  // Written while the mesh is made, and not any more.
  const PeerIdentity& identity(int peer) const { return known_.peers.identity(peer); }

 private:
  void tell(Notices notices);

  Word changes_{0};  // grows with every event; receivers sleep on it
  std::mutex mutex_;
  Known known_;
};
}  // namespace symm
