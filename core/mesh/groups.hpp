// The groups of a mesh: who is in them, who left, and why they are
// revoked. Used with the lock of PeerEvents held; what their
// revocations are to be told is returned, and told without the lock.
#pragma once

#include <deque>
#include <map>

#include "core/mesh/mesh.hpp"

namespace symm {
// The other ranks of a mesh: who each is, and what became of it. Used with the lock of
// PeerEvents held. "rank 3 (pid 4711)", "rank 3 (pid 4711 on b)"
std::string name_of_peer(int rank, int64_t pid, const std::string& host = {});

class Peers {
 public:
  explicit Peers(int size) : peers_(static_cast<size_t>(size)) {}

  const PeerIdentity& identity(int peer) const { return at(peer).identity; }
  // It is here, unless it has come, failed and left already, as a thread of this process may.
  void join(int peer, const PeerIdentity& identity);
  // False if it had gone before, one way or the other: the first word about a peer stands.
  bool leave(int peer) { return go(peer, State::left); }
  bool fail(int peer, const std::string& how);  // "died: its connection closed"

  bool left(int peer) const { return at(peer).state == State::left; }
  bool failed(int peer) const { return at(peer).state == State::failed; }
  std::string name(int peer, int as_rank) const {
    return name_of_peer(as_rank, identity(peer).pid, identity(peer).host);
  }
  Failure failure(int peer, int as_rank) const;  // of one that failed
 private:
  enum class State { absent, here, left, failed };
  struct Peer {
    PeerIdentity identity;
    State state = State::absent;
    std::string how;  // it failed
  };
  Peer& at(int rank) { return peers_[static_cast<size_t>(rank)]; }
  const Peer& at(int rank) const { return peers_[static_cast<size_t>(rank)]; }
  bool go(int peer, State state);

  std::vector<Peer> peers_;
};

struct Notice {
  uint64_t group;
  int peer;  // whom it is from or of; -1: this rank's own
  std::shared_ptr<Revocation> revocation;
  std::optional<Failure> failure;  // else `rank` departed
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
  // Returns the other members; none if it is not attached. What still comes for it is dropped.
  std::vector<int> detach(uint64_t group);
  bool detached(uint64_t group) const;
  std::vector<uint64_t> attached() const;
  std::vector<int> others(uint64_t group) const;  // mesh ranks, without this one
  // the same; of a group never attached, all peers
  std::vector<int> concerned(uint64_t group) const;
  std::shared_ptr<Revocation> revocation(uint64_t group) const;  // null if not attached
  // the mesh rank itself if not attached
  int rank_in(uint64_t group, int peer) const;
  bool has_left(int peer, uint64_t group) const;  // in good order
  // why nothing more comes from the peer in this group
  std::optional<Failure> failure(int peer, uint64_t group) const;

  Notices leave(int peer, uint64_t group);
  Notices revoke(int peer, uint64_t group, Failure failure);
  Notices leave_all(int peer);
  // After Peers::fail(). `alone`: nobody else sees it,
  // for which what happened `here` may be to blame.
  Notices fail_all(int peer, bool alone, const Failure* here);

 private:
  struct Attached {
    std::vector<int> members;
    std::vector<bool> left;  // by group rank
    std::shared_ptr<Revocation> revocation;
    int index_of(int mesh_rank) const noexcept;     // -1 if no member
    int index_if_in(int mesh_rank) const noexcept;  // -1 if no member, or none any more
  };
  struct Early {  // news of a group that is not attached yet
    uint64_t group;
    std::optional<Failure> failure;  // else the peer left it
  };
  void note_early(int peer, Early early);
  Failure of_member(Failure failure, int index, int peer) const;
  std::deque<Early>& early(int peer) { return early_[static_cast<size_t>(peer)]; }

  const int rank_;
  const Peers& peers_;
  std::map<uint64_t, Attached> groups_;
  std::deque<uint64_t> detached_;  // lately
  std::vector<std::deque<Early>> early_;
};
}  // namespace symm
