// The way from one rank to another: a connection if the other rank is in another process, a call if
// it is a thread of this one. What comes from the other rank is told to PeerEvents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/peer_fd.hpp"
#include "core/mesh/mesh.hpp"
#include "core/mesh/wire.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/secure_connection.hpp"
#include "core/socket/socket.hpp"

namespace symm {
class PeerEvents;

class PeerLink {
 public:
  virtual ~PeerLink() = default;
  // Connection::send() says what it returns. Descriptors are duplicated.
  virtual fdpass::Sent send(const Topic& topic, std::span<const std::byte> body,
      std::span<const int> fds, Deadline deadline) = 0;
  // Sends a message of the mesh itself: leave, bye, failure or commit_vote, the last two with a
  // failure. Never waits; a message that cannot be sent is dropped, and the peer's deadline
  // remains.
  virtual void post(wire::Type type, uint64_t group, const Failure* failure) noexcept = 0;
  // Has the peer watch this process's life.
  virtual void share_life(Deadline) noexcept {}
  virtual void stop() noexcept {}
  virtual bool carries_descriptors() const noexcept { return true; }
  // The address of this end of a connection to another machine, in numbers; "" for other links.
  virtual std::string own_address() const { return {}; }
  // Whether the peer's process is dead, as the kernel of this host says now. False for a thread of
  // this process; and for a process on another host, since nothing tells when the GPU there has
  // stopped to store.
  virtual bool is_dead() const noexcept { return false; }
  // Whether the peer's host was heard lately before `now`, which is now_ns(): true for a process of
  // this host, of whose death the kernel tells.
  virtual bool is_heard(uint64_t /*now*/) const noexcept { return true; }
  // Whether the peer's process is dying or dead, as far as this process has been told.
  virtual bool is_dying() const noexcept { return is_dead(); }
};

// A link from `rank` to the thread of which `peer_events` are the events.
std::shared_ptr<PeerLink> link_to_thread(int rank, std::weak_ptr<PeerEvents> peer_events);
// A link from `rank` to the process at the other end of the socket. What that process sends is told
// to `events`, which must know the peer as joined already.
std::shared_ptr<PeerLink> link_to_process(
    int rank, int peer, PeerFd socket, PeerProcess process, std::weak_ptr<PeerEvents> events);
// A link from `rank` to a process on another machine. It starts the connection; called in
// SecureListener::Admit, the link has to be returned from there.
std::shared_ptr<PeerLink> link_to_machine(int rank, int peer,
    const std::shared_ptr<SecureConnection>& connection, std::weak_ptr<PeerEvents> events);
}  // namespace symm
