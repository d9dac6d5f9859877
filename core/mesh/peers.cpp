#include "core/mesh/peers.hpp"

namespace symm {
std::string name_of_peer(int rank, int64_t pid, const std::string& host) {
  if (!host.empty()) return format("rank %d (pid %lld on %s)", rank, static_cast<long long>(pid), host.c_str());
  return pid > 0 ? format("rank %d (pid %lld)", rank, static_cast<long long>(pid)) : format("rank %d", rank);
}

void Peers::join(int peer, const PeerIdentity& identity) {
  at(peer).identity = identity;
  if (at(peer).state == State::absent) at(peer).state = State::here;
}

bool Peers::go(int peer, State state) {
  if (left(peer) || failed(peer)) return false;
  at(peer).state = state;
  return true;
}

bool Peers::fail(int peer, const std::string& how) {
  std::string copy = how;
  if (!go(peer, State::failed)) return false;
  at(peer).how = std::move(copy);
  return true;
}

Failure Peers::failure(int peer, int as_rank) const {
  return {Status::peer_failed, as_rank, identity(peer).pid, name(peer, as_rank) + " " + at(peer).how};
}
}  // namespace symm
