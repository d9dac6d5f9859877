// TCP connections between processes that know one secret: frames
// in their order, each whole or not at all. The monitor thread
// reads them, and writes what the network did not take at once.
#pragma once

#include <sys/socket.h>

#include <list>

#include "core/base/wait.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/monitor.hpp"
#include "core/socket/secure.hpp"

namespace symm {
std::string host_name();
// by which that machine reaches this one; "": not connected
std::string own_address(int socket, const std::string& dialled);
// By which others reach this machine, in numbers: of its name, else of an interface.
// Throws Error(unavailable): there is none.
std::string outside_address();
// one that the kernel gives nobody else as long as this process lives. Throws Error(system)
uint16_t hold_free_port();
// Begins to connect. `attempt` counts through the addresses that the host has. Throws
// Error(unavailable): there is no such host.
PeerFd dial_tcp(const std::string& host, uint16_t port, unsigned attempt = 0);

class SecureConnection final : public Watched,
                               public std::enable_shared_from_this<SecureConnection> {
 public:
  class Receiver {  // on the monitor thread
   public:
    virtual ~Receiver() = default;
    // Returns nullptr, or in what way the frame breaks the protocol: then the connection ends.
    virtual const char* on_frame(std::span<const std::byte> frame) = 0;
    // `closed` by the other side, on purpose or by its death.
    // `how`, in words: "died: its connection closed". Once, and
    // nothing comes after it; a last word may be sent from here.
    virtual void on_end(bool closed, const std::string& how) = 0;
  };
  // What is sent before the other end has shown that it knows the secret waits until it
  // has; who dialled and is turned away before that, which others' connections can
  // bring about, dials again some times. With `silence_ms`, both ends are to use the
  // same, the connection ends when the other machine has been silent for so long.
  SecureConnection(PeerFd socket, bool dialled, const Secret& secret, uint64_t silence_ms);
  ~SecureConnection() override { stop(); }
  // once, and in on_frame() to give what comes after it to somebody else
  void start(std::weak_ptr<Receiver> receiver);
  // what was sent goes out as far as the network takes it
  void stop() noexcept;

  // any thread; never `crowded`
  fdpass::Sent send(std::span<const std::byte> frame, Deadline deadline);
  // dropped if much is waiting already
  void post(std::span<const std::byte> frame) noexcept;
  // and the receiver was told
  bool ended() const noexcept { return ended_; }
  // the other end knows the secret
  bool known() const noexcept { return known_; }
  // so far; on the monitor thread
  bool silent() const noexcept { return stage_ == Stage::greeting; }
  int socket() const noexcept { return socket_.get(); }
  // in numbers, of who was dialled and is known
  std::string peer_address() const;
  // of the other machine, for messages; before start()
  void host(std::string name) { host_ = std::move(name); }

  void ready(int fd) noexcept override;

 private:
  enum class Stage { connecting, greeting, header, frames };
  void watch();  // with the lock
  void dial_again();
  void read();
  bool parse();  // false: it has ended
  bool meet(std::span<const std::byte> theirs);
  // with the lock
  void enqueue(std::span<const std::byte> bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  // with the lock
  void enqueue_sealed(std::span<const std::byte> frame);
  // with the lock
  void write();
  void end(const std::string& how, bool closed = false);
  void end(int error);  // errno of what was sent or received last, 0: the other side closed
  bool answered(uint64_t ticks);

  PeerFd socket_;
  PeerFd timer_;
  const bool dialled_;
  const uint64_t silence_ms_;
  const uint32_t generation_;
  std::string host_;
  std::weak_ptr<Receiver> receiver_;  // from here on the monitor thread's
  Deadline due_ = Deadline::never();  // what the other machine is to answer next
  sockaddr_storage peer_{};           // whom this end dialled, ...
  int redials_ = 0;                   // ... and how often again
  std::vector<std::byte> in_;
  Stage stage_;
  std::atomic<bool> known_{false}, ended_{false};
  std::atomic<int> error_{0};  // that a write met
  std::atomic<uint64_t> watching_{0}, ticking_{0};
  std::mutex mutex_;  // of what follows
  SecureStream stream_;
  std::vector<std::vector<std::byte>> early_;  // frames from before it was known
  std::vector<std::byte> out_;
  Word changes_{0};  // less in out_, or the end
};

// Where others connect. Who does not know the secret is turned away and counted, and
// who says nothing keeps nobody waiting.
class SecureListener final : public Watched, public std::enable_shared_from_this<SecureListener> {
 public:
  // Hears the first frame of a connection; returns who hears
  // the rest, null to turn it away. On the monitor thread.
  using Admit = std::function<std::shared_ptr<SecureConnection::Receiver>(
      const std::shared_ptr<SecureConnection>& connection, std::span<const std::byte> first)>;
  // On the loopback interface if `host` is there and no name of this machine, else on
  // all. Port 0: any. Throws Error(system).
  SecureListener(const std::string& host, uint16_t port, const Secret& secret, uint64_t silence_ms,
      Admit admit);
  ~SecureListener() override { stop(); }
  void start();
  void stop() noexcept;
  uint16_t port() const;
  uint64_t refused() const noexcept { return refused_; }
  void ready(int fd) noexcept override;

 private:
  class Stranger;
  const Secret secret_;
  const uint64_t silence_ms_;
  const Admit admit_;
  const uint32_t generation_;
  PeerFd socket_;
  Fd spare_;  // the monitor's: by which somebody is turned away where there is no other descriptor
  std::atomic<uint64_t> watching_{0}, refused_{0};
  std::mutex mutex_;
  std::list<std::shared_ptr<Stranger>> strangers_;  // the oldest first
};
}  // namespace symm
