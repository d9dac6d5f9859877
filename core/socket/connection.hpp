// The connection to another process: a SEQPACKET socket, and the pidfd that confirms the death of
// the process at the other end. The monitor thread reads the socket, a few packets a turn, so that
// a peer that sends much leaves the others their turns.
//
// A receiver is called in this order:
//   1. for packets, in the order in which they were sent;
//   2. at most once, and after the last packet: for the end of the connection, or for the sign that
//      the peer is dying, whichever is known first;
//   3. at most once: for the death of the peer. All packets that the peer had sent were delivered
//      before, though the kernel may tell of the death first.
// If a child of the dead process holds a copy of the socket, the end may come after the death, or
// never.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/base/deadline.hpp"
#include "core/base/peer_fd.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/life.hpp"
#include "core/socket/monitor.hpp"
#include "core/socket/socket.hpp"

namespace symm {
class Connection;

// Gets what comes by a connection, on the monitor thread.
class Receiver {
 public:
  enum class End {
    closed,  // the other side closed it, on purpose or by its death
    broken,  // the other side broke the protocol
    dying,   // the life word of the peer says that the peer is dying
    failed   // this process cannot read it any more, or the receiver threw
  };
  virtual ~Receiver() = default;

  // Called once a turn. A receiver that needs a lock takes it here, and then calls
  // connection.hear(dead).
  virtual void on_turn(Connection& connection, bool dead) noexcept;
  // Returns nullptr, or in what way the packet breaks the protocol: then the connection ends.
  // `received` has the packet's descriptors.
  virtual const char* on_packet(std::span<const std::byte> bytes, fdpass::Received& received) = 0;
  virtual void on_end(End end, const std::string& why) = 0;  // `why`: "" when closed
  // `manner`: "killed by signal 9"; "" if the kernel does not tell.
  virtual void on_death(const std::string& manner) = 0;
};

class Connection final : public Watched {
 public:
  static constexpr int kPacketsPerTurn = 64;
  static constexpr size_t kLongestPacket = 8192;  // no receiver may ask for longer ones

  // `longest`: the bytes of the longest packet; a longer one breaks the protocol.
  Connection(Receiver& receiver, PeerFd socket, PeerProcess peer, size_t longest);
  Connection(Connection&&) = delete;
  ~Connection() override { stop(); }

  // From now on the monitor reads. `owner` contains the connection and the receiver, and is kept
  // alive while the receiver is called. Throws Error(system).
  void start(const std::shared_ptr<void>& owner);
  // Watches the word that the peer holds for this end. Called in a turn of the monitor.
  void watch_life(LifeWord word) noexcept;
  // No call of the receiver begins after this; one that is under way goes on.
  void stop() noexcept;

  const PeerProcess& peer() const noexcept { return peer_; }
  bool open() const noexcept { return static_cast<bool>(socket_); }
  // PeerLink::is_dead() says what it tells.
  bool is_dead() const noexcept;
  // The peer is dying or dead, by its life word.
  bool is_dying() const noexcept { return is_dying_.load(std::memory_order_relaxed); }
  bool has_death_watch() const noexcept { return watching_pidfd_ != 0; }

  // Any number of threads may send at once. Returns would_block if the peer's queue was full until
  // the deadline, crowded if the kernel was short of something until then. Throws Error(system).
  fdpass::Sent send(std::span<const std::byte> packet, std::span<const int> fds, Deadline deadline);
  // Sends without waiting. Throws Error(system).
  fdpass::Sent send_now(std::span<const std::byte> packet, std::span<const int> fds = {});
  // Sends without waiting; the packet is dropped if it cannot be sent at once. The queue is full
  // only if the peer has hundreds of packets unread, so if the peer is stopped: when the peer goes
  // on, it runs into its deadline or sees this connection close.
  void post(std::span<const std::byte> packet) noexcept;
  // Closes the descriptor: no packet is read any more, but a death is still told. Call it only when
  // no other thread can be sending.
  void close_socket() noexcept;

  void ready(int fd) noexcept override;
  void hear(bool dead) noexcept;  // for Receiver::on_turn() only

 private:
  void read(int packets);
  void end(Receiver::End end, const std::string& why);

  Receiver& receiver_;
  PeerFd socket_;  // open as long as any thread may be sending
  const PeerProcess peer_;
  const size_t longest_;
  const uint32_t generation_;
  // The monitor's numbers for the socket and the pidfd.
  std::atomic<uint64_t> watching_socket_{0};
  std::atomic<uint64_t> watching_pidfd_{0};
  std::weak_ptr<Watched> self_;
  LifeWord life_;  // used on the monitor thread
  std::atomic<uint64_t> watching_life_{0};
  std::atomic<bool> is_dying_{false};
};
}  // namespace symm
