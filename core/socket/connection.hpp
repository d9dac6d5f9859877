// The connection to another process: a SEQPACKET socket, and the pidfd that confirms
// the death of whoever is at the other end. The monitor thread reads it, a few packets
// a turn, so that one peer that talks much leaves the others their turns.
//
// The order of what a receiver hears:
//   1. packets, in the order in which they were sent;
//   2. at most once, and after the last packet: that the connection has ended, or the
//      peer is ending, whichever is known first;
//   3. at most once: that the peer is dead. All that it had sent was heard before,
//      though the kernel may tell of a death first.
// The end may come after the death, when a child of the
// dead process holds a copy of the socket, or never.
#pragma once

#include "core/socket/fdpass.hpp"
#include "core/socket/life.hpp"
#include "core/socket/socket.hpp"

namespace symm {
class Connection;

// Who hears what comes, on the monitor thread.
class Receiver {
 public:
  enum class End {
    closed,  // by the other side, on purpose or by its death
    broken,  // it broke the protocol
    dying,   // by the life word of the peer
    failed   // this process cannot read it any more, or the receiver threw
  };
  virtual ~Receiver() = default;

  // Once a turn. Who needs a lock to hear takes it here, and then calls connection.hear(dead).
  virtual void on_turn(Connection& connection, bool dead) noexcept;
  // Returns nullptr, or in what way the packet breaks the protocol: then the connection
  // ends. `received` has its descriptors.
  virtual const char* on_packet(std::span<const std::byte> bytes, fdpass::Received& received) = 0;
  virtual void on_end(End end, const std::string& why) = 0;  // "" when closed
  // "killed by signal 9"; "" if the kernel does not tell
  virtual void on_death(const std::string& manner) = 0;
};

class Connection final : public Watched {
 public:
  static constexpr int kPacketsPerTurn = 64;
  static constexpr size_t kLongestPacket = 8192;  // that any receiver may ask for

  // `longest`: bytes of a packet; a longer one breaks the protocol.
  Connection(Receiver& receiver, PeerFd socket, PeerProcess peer, size_t longest);
  Connection(Connection&&) = delete;
  ~Connection() override { stop(); }

  // From now on the monitor reads. `owner` has the connection and the receiver in it,
  // and lives on while it hears something. Throws Error(system).
  void start(const std::shared_ptr<void>& owner);
  // The word that the peer holds for this end. In a turn of the monitor's.
  void watch_life(LifeWord word) noexcept;
  // Nothing is heard any more, once a packet that is being heard is done with.
  void stop() noexcept;

  const PeerProcess& peer() const noexcept { return peer_; }
  bool open() const noexcept { return static_cast<bool>(socket_); }
  // as PeerLink::is_dead()
  bool is_dead() const noexcept;
  // or dead, as its life word says
  bool is_dying() const noexcept { return is_dying_.load(std::memory_order_relaxed); }
  bool has_death_watch() const noexcept { return watching_pidfd_ != 0; }

  // Any thread may send, while others do. would_block: the peer's
  // queue was full until the deadline; crowded: the kernel was
  // short of something until then. Throws Error(system).
  fdpass::Sent send(std::span<const std::byte> packet, std::span<const int> fds, Deadline deadline);
  // Without waiting. Throws Error(system).
  fdpass::Sent send_now(std::span<const std::byte> packet, std::span<const int> fds = {});
  // The packet is dropped if it cannot be sent at once. That needs
  // hundreds of packets unread, so a peer that is stopped: when it
  // goes on, it runs into its deadline or sees this connection close.
  void post(std::span<const std::byte> packet) noexcept;
  // No packet is read any more, and the descriptor goes back; a death is still heard.
  // Only where nobody else can be sending.
  void close_socket() noexcept;

  void ready(int fd) noexcept override;
  void hear(bool dead) noexcept;  // of on_turn() only
 private:
  void read(int packets);
  void end(Receiver::End end, const std::string& why);

  Receiver& receiver_;
  PeerFd socket_;  // open until nobody can be sending any more
  const PeerProcess peer_;
  const size_t longest_;
  const uint32_t generation_;
  std::atomic<uint64_t> watching_socket_{0};  // the monitor's numbers
  std::atomic<uint64_t> watching_pidfd_{0};
  std::weak_ptr<Watched> self_;
  LifeWord life_;  // the monitor's
  std::atomic<uint64_t> watching_life_{0};
  std::atomic<bool> is_dying_{false};
};
}  // namespace symm
