// The way from one rank to another: a connection if that is in another process, a call
// if it is a thread of this one. What comes the other way is told to PeerEvents.
#pragma once

#include "core/mesh/mesh.hpp"
#include "core/socket/secure_connection.hpp"
#include "core/socket/socket.hpp"

namespace symm {
class PeerEvents;

class PeerLink {
 public:
  virtual ~PeerLink() = default;
  // As Connection::send(). Descriptors are duplicated.
  virtual fdpass::Sent send(const Topic& topic, std::span<const std::byte> body,
      std::span<const int> fds, Deadline deadline) = 0;
  // What the mesh itself says: leave, bye, failure or
  // commit_vote, the last two with a failure. Never waits; what
  // cannot be sent is dropped, and the peer's deadline remains.
  virtual void post(wire::Type type, uint64_t group, const Failure* failure) noexcept = 0;
  // Have the peer watch this process's life.
  virtual void share_life(Deadline) noexcept {}
  virtual void stop() noexcept {}
  virtual bool carries_descriptors() const noexcept { return true; }
  // As the kernel says now; where it tells of no deaths, whether the connection is
  // closed. A thread of this process is not.
  virtual bool is_dead() const noexcept { return false; }
  virtual bool is_dying() const noexcept { return is_dead(); }  // or dead; it may not be known
};

// From `rank` to the thread whose events those are.
std::shared_ptr<PeerLink> link_to_thread(int rank, std::weak_ptr<PeerEvents> of_peer);
// From `rank` to the process at the other end of the socket. What that says is told to
// `events`, which know it as joined already.
std::shared_ptr<PeerLink> link_to_process(
    int rank, int peer, PeerFd socket, PeerProcess process, std::weak_ptr<PeerEvents> events);
// The same, on another machine. Who calls it in SecureListener::Admit
// returns it from there, else it is to be started.
std::shared_ptr<PeerLink> link_to_machine(int rank, int peer,
    const std::shared_ptr<SecureConnection>& connection, std::weak_ptr<PeerEvents> events);
}  // namespace symm
