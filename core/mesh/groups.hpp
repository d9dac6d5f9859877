// The groups of a mesh: their members, the members that left, and why they are revoked. Used with
// the lock of PeerEvents held. What has to be told to a group's revocation is returned as a Notice,
// and told without the lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/revocation.hpp"
#include "core/mesh/mesh.hpp"

namespace symm {
// "rank 3 (pid 4711)", "rank 3 (pid 4711 on b)"
std::string name_of_peer(int rank, int64_t pid, const std::string& host = {});

// The other ranks of a mesh: their identities, and what became of them. Used with the lock of
// PeerEvents held.
class Peers {
 public:
  explicit Peers(int size) : peers_(static_cast<size_t>(size)) {}

  const PeerIdentity& identity(int peer) const { return at(peer).identity; }
  // The peer is here, unless it has failed or left already, as a thread of this process may have.
  void join(int peer, const PeerIdentity& identity);
  // False if the peer had left or failed before: the first news of a peer stands.
  bool leave(int peer) { return go(peer, State::left); }
  bool fail(int peer, const std::string& how);  // "died: its connection closed"

  bool left(int peer) const { return at(peer).state == State::left; }
  bool failed(int peer) const { return at(peer).state == State::failed; }
  std::string name(int peer, int as_rank) const {
    return name_of_peer(as_rank, identity(peer).pid, identity(peer).host);
  }
  Failure failure(int peer, int as_rank) const;  // for a peer that failed

 private:
  enum class State { absent, here, left, failed };
  struct Peer {
    PeerIdentity identity;
    State state = State::absent;
    std::string how;  // "died: its connection closed", for a peer that failed
  };
  Peer& at(int rank) { return peers_[static_cast<size_t>(rank)]; }
  const Peer& at(int rank) const { return peers_[static_cast<size_t>(rank)]; }
  bool go(int peer, State state);

  std::vector<Peer> peers_;
};

// A failure or a departure that has to be told to a group's revocation.
struct Notice {
  uint64_t group;
  int peer;  // the peer that sent it or that it is about; -1: a decision of this rank
  std::shared_ptr<Revocation> revocation;
  std::optional<Failure> failure;  // none: `rank` departed
  int rank;                        // in the group
  bool seen = false;               // the failure is that peer's death
  bool told = false;
};
using Notices = std::vector<Notice>;

class Groups {
 public:
  Groups(int rank, int size, const Peers& peers)
      : rank_(rank), peers_(peers), early_(static_cast<size_t>(size)) {}

  Notices attach(uint64_t group, std::vector<int> members, std::shared_ptr<Revocation> revocation);
  // Returns the other members; none if the group is not attached. News that still come for the
  // group are dropped.
  std::vector<int> detach(uint64_t group);
  bool detached(uint64_t group) const;
  std::vector<uint64_t> attached() const;
  std::vector<int> others(uint64_t group) const;  // mesh ranks, without this one
  // The ranks to which a failure of the group is told: the other members, or all peers if the group
  // was never attached.
  std::vector<int> concerned(uint64_t group) const;
  std::shared_ptr<Revocation> revocation(uint64_t group) const;  // null if not attached
  // The peer's number in the group; its mesh rank if the group is not attached.
  int rank_in(uint64_t group, int peer) const;
  bool has_left(int peer, uint64_t group) const;  // in good order
  // From here to unfollow(), has_left() knows who leaves a group also after this rank has left it.
  void follow(uint64_t group);
  void unfollow(uint64_t group) noexcept { followed_.erase(group); }
  bool follows(int peer) const;  // in some group that the peer has not left
  // Why nothing more comes from the peer in this group; none if something may come.
  std::optional<Failure> failure(int peer, uint64_t group) const;

  Notices leave(int peer, uint64_t group);
  Notices revoke(int peer, uint64_t group, Failure failure);
  Notices leave_all(int peer);
  // Called after Peers::fail(). `alone`: no other rank sees the failure. `local_failure` is the
  // failure of this rank that is to blame for it, or null.
  Notices fail_all(int peer, bool alone, const Failure* local_failure);

 private:
  struct Attached {
    std::vector<int> members;
    std::vector<bool> left;  // by group rank
    std::shared_ptr<Revocation> revocation;
    int index_of(int mesh_rank) const noexcept;     // -1 if no member
    int index_if_in(int mesh_rank) const noexcept;  // -1 if no member, or a member that left
  };
  // News of a group that is not attached yet.
  struct Early {
    uint64_t group;
    std::optional<Failure> failure;  // none: the peer left the group
  };
  void note_early(int peer, Early early);
  Failure of_member(Failure failure, int index, int peer) const;
  std::deque<Early>& early(int peer) { return early_[static_cast<size_t>(peer)]; }

  const int rank_;
  const Peers& peers_;
  std::map<uint64_t, Attached> groups_;
  std::deque<uint64_t> detached_;  // the last ones, the oldest first
  std::vector<std::deque<Early>> early_;
  // The peers that are still in a group, by mesh rank, of the groups that are followed.
  std::map<uint64_t, std::vector<bool>> followed_;
};
}  // namespace symm
