// Carries messages between processes for the groups that span them: one message engine a
// process, over the link of an engine.
//
// Whoever is inside send() or progress() makes progress, else the message engine's own thread,
// which sleeps on the engine's descriptor.
//
// Messages overtake each other in an engine. Payloads go where they belong as they
// come, but arrived() is called in the order of sequence numbers. So two payloads for
// one place are in order only if the later was sent when the earlier had arrived.
#pragma once

#include "core/engine/link.hpp"

namespace symm::engine {
// A group's. Called on whatever thread makes progress, one
// call at a time in a process, with the message engine's lock held:
// it must not wait, and of its Endpoint it may call answer() only.
class Receiver {
 public:
  // Where the payload goes, after checks; null: refused,
  // `from` has broken the protocol and is lost.
  virtual std::byte* place(int from, const Head& head) noexcept = 0;
  // the payload is there; in the order in which `from` sent
  virtual void arrived(int from, const Head& head) noexcept = 0;
  // Once, when nothing goes to or comes from `peer` any more. It need not have failed:
  // its process may have ended after it left, or have been slow to take a message of
  // another group, which was given up.
  virtual void lost(int peer, const std::string& how) noexcept = 0;

 protected:
  ~Receiver() = default;
};

// One group's half of the message engine. Thread-safe.
class Endpoint {
 public:
  // What was sent still goes to its targets, as long as this
  // process lives and they take it; what comes is dropped.
  // Waits for nothing but the end of what is being received.
  virtual ~Endpoint() = default;
  virtual void connect(int rank, std::span<const std::byte> address) = 0;  // local
  // Returns when `payload` may be written again, which is not when it
  // has arrived. Throws Error: timeout, or why the group was revoked;
  // after either, nothing goes to `rank` or comes from it any more.
  virtual void send(
      int rank, Head head, std::span<const std::byte> payload, LazyDeadline& deadline) = 0;
  // From arrived(): queued, never waits; `keep` keeps the payload until it was sent.
  virtual void answer(int rank, Head head, std::span<const std::byte> payload,
      std::shared_ptr<const void> keep) noexcept = 0;
  // As send(), but returns at once: `payload` stays as it is until it has arrived, of
  // which the caller learns by himself.
  virtual void dispatch(int rank, Head head, std::span<const std::byte> payload,
      std::shared_ptr<const void> keep) noexcept = 0;
  // what has come is received; false: nothing had. To be polled
  virtual bool progress() noexcept = 0;
  // of a thread that polls; the message engine's own rests meanwhile
  virtual void polls(Polling) noexcept = 0;
  // nothing to or from it touches memory of this process when this returns
  virtual void cut(int rank) noexcept = 0;
};

class MessageEngine {
 public:
  virtual ~MessageEngine() = default;  // has no endpoints, and serves nowhere
  virtual std::unique_ptr<Endpoint> open_endpoint(
      uint64_t group, int rank, int size, Receiver&, std::shared_ptr<Revocation>) = 0;
  virtual Bytes address() = 0;
  virtual const std::string& name() const = 0;
  // makes progress where nobody else does, until stop(): for a thread of its own
  virtual void serve() noexcept = 0;
  virtual void stop() noexcept = 0;
};
std::unique_ptr<MessageEngine> make_message_engine(
    const std::function<std::unique_ptr<Link>(Sink&)>& open);

// Of this process, made on first use. Throws Error(unavailable): which
// engine was looked for, where, what to install. `group` is a number that
// no other group has. What comes for a group that has no endpoint here is
// dropped: a rank opens its endpoint before it tells the others its address.
std::unique_ptr<Endpoint> open_endpoint(
    uint64_t group, int rank, int size, Receiver& receiver, std::shared_ptr<Revocation> revocation);
Bytes engine_address();
std::string engine_name();  // "ucx 1.13.1"
}  // namespace symm::engine
