// The other ranks of a mesh: who each is, and what became of it. Used with the lock of PeerEvents held.
#pragma once

#include "core/mesh/mesh.hpp"

namespace symm {
std::string name_of_peer(int rank, int64_t pid, const std::string& host = {});  // "rank 3 (pid 4711)", "rank 3 (pid 4711 on b)"

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
  std::string name(int peer, int as_rank) const { return name_of_peer(as_rank, identity(peer).pid, identity(peer).host); }
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
}  // namespace symm
