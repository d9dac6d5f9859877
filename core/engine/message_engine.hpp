// The message engine carries messages between processes, for groups that span several.
// A process has one, over the link of an engine.
//
// Threads inside send() or progress() make progress; if there are none, the message
// engine's own thread does, which sleeps on the descriptor of the link.
//
// Messages can overtake each other on a link. A payload goes to its place as it comes,
// but arrived() is called in the order of sequence numbers. So two payloads for one
// place are in order only if the later one was sent after the earlier one had arrived.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/base/revocation.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"
#include "core/engine/link.hpp"

namespace symm::engine {
// The group's side of the message engine. It is called on whatever thread makes progress, one
// call at a time in a process, while the message engine's lock is held: a call must not wait,
// and may use only answer() of its Endpoint.
class Receiver {
 public:
  // Checks a message, and returns the destination of its payload; null if `from` has broken
  // the protocol, and so is lost.
  virtual std::byte* place(int from, const Head& head) noexcept = 0;
  // The payload is in its place. Called in the order in which `from` sent the messages.
  virtual void arrived(int from, const Head& head) noexcept = 0;
  // Called once, when nothing goes to `peer` or comes from it any more. The peer need
  // not have failed: its process may have ended after the rank left, or may have been
  // slow to take a message of another group, which was given up.
  virtual void lost(int peer, const std::string& reason) noexcept = 0;

 protected:
  ~Receiver() = default;
};

// One rank's access to the message engine. Thread-safe.
class Endpoint {
 public:
  // Messages that were sent still go to their targets, as long as this process lives
  // and the targets take them; messages that come are dropped. The destructor waits for
  // nothing but the end of messages that are being received.
  virtual ~Endpoint() = default;
  // Local: the peer is not waited for.
  virtual void connect(int rank, std::span<const std::byte> address) = 0;

  // Returns when `payload` may be written again, which is not yet the moment of its
  // arrival. Throws Error: timeout, or why the group was revoked; after either, nothing
  // goes to `rank` or comes from it any more.
  virtual void send(
      int rank, Head head, std::span<const std::byte> payload, LazyDeadline& deadline) = 0;
  // Queues a message from within arrived(); never waits. `keep` keeps the payload
  // until it was sent.
  virtual void answer(int rank, Head head, std::span<const std::byte> payload,
      std::shared_ptr<const void> keep) noexcept = 0;
  // Sends a message, and returns at once. `payload` must not change until it has
  // arrived, which the caller has to find out by another message.
  virtual void dispatch(int rank, Head head, std::span<const std::byte> payload,
      std::shared_ptr<const void> keep) noexcept = 0;

  // Receives what has come; false: nothing had. To be polled.
  virtual bool progress() noexcept = 0;
  // Called by a thread that polls: meanwhile the message engine's own thread rests.
  virtual void polls(Polling) noexcept = 0;
  // When this returns, no message to or from `rank` touches memory of this process any more.
  virtual void cut(int rank) noexcept = 0;
};

class MessageEngine {
 public:
  // The engine may go only when there are no endpoints, and no thread is in serve().
  virtual ~MessageEngine() = default;
  virtual std::unique_ptr<Endpoint> open_endpoint(
      uint64_t group, int rank, int size, Receiver&, std::shared_ptr<Revocation>) = 0;
  // The address that Endpoint::connect() of another process needs. It is shared over the mesh
  // alone: it is secret, because the process's key is in it.
  virtual Bytes address() = 0;
  virtual const std::string& name() const = 0;
  // Makes progress while no other thread does, until stop() is called. For a thread of its own.
  virtual void serve() noexcept = 0;
  virtual void stop() noexcept = 0;
};

std::unique_ptr<MessageEngine> make_message_engine(
    const std::function<std::unique_ptr<Link>(Sink&)>& open);

// Makes the message engine of this process, if there is none yet, over the link that SYMM_ENGINE
// names. `addresses`: those of this host by which others reach it, in numbers; none if they are not
// known. It listens where these addresses are. Throws Error(unavailable), which says what engine
// was looked for, where, and what to install.
void open_engine(const std::vector<std::string>& addresses);

// The functions below use the message engine of this process, which must have been made.
//
// `group` is a number that no other group has. A message for a group that has no
// endpoint here is dropped, so a rank opens its endpoint before it shares its address.
std::unique_ptr<Endpoint> open_endpoint(
    uint64_t group, int rank, int size, Receiver& receiver, std::shared_ptr<Revocation> revocation);
Bytes engine_address();
std::string engine_name();  // "ucx 1.13.1"
}  // namespace symm::engine
