// TCP connections between processes that know one secret: frames in their order, each whole or not
// at all. The monitor thread reads them, and writes what the network did not take at once.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/base/futex.hpp"
#include "core/base/peer_fd.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/keepalive.hpp"
#include "core/socket/monitor.hpp"
#include "core/socket/secure.hpp"

namespace symm {
class SecureConnection final : public Watched,
                               public std::enable_shared_from_this<SecureConnection> {
 public:
  // Gets what comes, on the monitor thread.
  class Receiver {
   public:
    virtual ~Receiver() = default;
    // Returns nullptr, or in what way the frame breaks the protocol: then the connection ends.
    virtual const char* on_frame(std::span<const std::byte> frame) = 0;
    // Called once, and nothing comes after it; a last frame may be sent from here. `closed`: by
    // the other side, on purpose or by its death. `how`, in words: "died: its connection closed".
    virtual void on_end(bool closed, const std::string& how) = 0;
  };

  // Frames that are sent before the other end has shown that it knows the secret wait until it
  // has. An end that dialled and is refused before that dials again some times: a crowd of others'
  // connections can have that effect. With `silence_ms`, which must be equal at both ends, the
  // connection ends when the other machine has been silent for so long.
  SecureConnection(PeerFd socket, bool dialled, const Secret& secret, uint64_t silence_ms);
  ~SecureConnection() override { stop(); }
  // Called once; and in on_frame(), to give the frames that follow to another receiver.
  void start(std::weak_ptr<Receiver> receiver);
  // Frames that were sent still go out as far as the network takes them.
  void stop() noexcept;

  // Any thread may send. Never returns `crowded`.
  fdpass::Sent send(std::span<const std::byte> frame, Deadline deadline);
  // Sends without waiting: the frame is dropped if much is waiting already.
  void post(std::span<const std::byte> frame) noexcept;

  // The connection has ended, and the receiver was told.
  bool ended() const noexcept { return ended_; }
  // The other end has shown that it knows the secret.
  bool known() const noexcept { return known_; }
  // Whether there was no listener at the address that was dialled. Set before the
  // receiver's on_end().
  bool was_refused() const noexcept { return was_refused_; }
  // Why one end has refused the other, which has another version of symm; "" if neither has. Set
  // before the receiver's on_end().
  const std::string& other_version() const noexcept { return other_version_; }
  // Whether the other machine has acknowledged something within the last heartbeats before `now`.
  bool is_heard(uint64_t now) const noexcept { return keepalive_.is_heard(now); }
  // The other end has not greeted so far. On the monitor thread.
  bool silent() const noexcept { return stage_ == Stage::greeting; }
  int socket() const noexcept { return socket_.get(); }
  // The address that was dialled, in numbers, once the other end is known.
  std::string peer_address() const;
  // Names the other machine in messages. Before start().
  void set_host(std::string name) { host_ = std::move(name); }

  void ready(int fd) noexcept override;

 private:
  enum class Stage { connecting, greeting, header, frames };

  // Connecting and ending.
  void watch();        // with the lock
  void watch_timer();  // with the lock
  void dial_again();
  void end(const std::string& how, bool closed = false);
  // `error`: the errno of the last send or receive; 0: the other side closed.
  void end(int error);

  // Turns of the monitor.
  void on_timer();
  void on_socket();
  // False if the socket is not connected yet. With the lock.
  bool finish_connecting();

  // Receiving. False: the connection has ended.
  void read();
  bool parse();
  size_t size_of_next(std::span<const std::byte> bytes) const;
  bool take(std::span<const std::byte> message);
  bool finish_handshake(std::span<const std::byte> theirs);
  bool take_frame(std::span<const std::byte> sealed);

  // Sending, with the lock.
  void enqueue(std::span<const std::byte> bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void enqueue_sealed(std::span<const std::byte> frame);
  void write();

  PeerFd socket_;
  const bool dialled_;
  const uint32_t generation_;
  std::string host_;

  // Used on the monitor thread only, after start().
  std::weak_ptr<Receiver> receiver_;
  Keepalive keepalive_;
  sockaddr_storage peer_{};  // the address that this end dialled
  int redials_ = 0;
  std::vector<std::byte> in_;
  Stage stage_;
  std::string other_version_;

  std::atomic<bool> known_{false};
  std::atomic<bool> was_refused_{false};
  std::atomic<bool> ended_{false};
  std::atomic<int> error_{0};  // the errno of a write that failed
  // The monitor's numbers for the socket and the timer.
  std::atomic<uint64_t> watching_{0};
  std::atomic<uint64_t> ticking_{0};

  std::mutex mutex_;  // guards the members that follow
  SecureStream stream_;
  std::vector<std::vector<std::byte>> early_;  // frames sent before the other end was known
  std::vector<std::byte> out_;
  Word changes_{0};  // grows when out_ shrinks, and at the end
};
}  // namespace symm
