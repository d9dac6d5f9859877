// The socket at which processes of other machines connect by TCP.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "core/base/fd.hpp"
#include "core/base/peer_fd.hpp"
#include "core/socket/monitor.hpp"
#include "core/socket/secure.hpp"
#include "core/socket/secure_connection.hpp"

namespace symm {
// Accepts connections of processes that know the secret. Others are refused and counted, and a
// connection that sends nothing keeps no other one waiting.
class SecureListener final : public Watched, public std::enable_shared_from_this<SecureListener> {
 public:
  // Gets the first frame of a connection, on the monitor thread. Returns the receiver of the frames
  // that follow; null refuses the connection.
  using Admit = std::function<std::shared_ptr<SecureConnection::Receiver>(
      const std::shared_ptr<SecureConnection>& connection, std::span<const std::byte> first)>;
  // Listens on the loopback interface if `host` leads there and is not a name of this machine, else
  // on all interfaces. Port 0: any free port. Throws Error(system).
  SecureListener(const std::string& host, uint16_t port, const Secret& secret, uint64_t silence_ms,
      Admit admit);
  ~SecureListener() override { stop(); }
  void start();
  void stop() noexcept;
  // Whether `host` leads to the loopback interface, so that other machines cannot connect.
  bool on_loopback() const noexcept { return on_loopback_; }
  // Refuses the connections that have said nothing so far. On the monitor thread.
  void drop_silent() noexcept;
  uint16_t port() const;
  uint64_t refused() const noexcept { return refused_; }
  void ready(int fd) noexcept override;

 private:
  class PendingConnection;
  // False if no other connection waits, or none can be accepted now.
  bool accept_one();
  // With the lock.
  std::shared_ptr<PendingConnection> evict(
      const PendingConnection* newest, bool out_of_descriptors);
  void refuse_one();

  const Secret secret_;
  const uint64_t silence_ms_;
  const Admit admit_;
  const uint32_t generation_;
  bool on_loopback_ = false;
  PeerFd socket_;
  // Given up to accept and refuse a connection when there is no other descriptor. Used on the
  // monitor thread.
  Fd spare_;
  std::atomic<uint64_t> watching_{0};
  std::atomic<uint64_t> refused_{0};
  std::mutex mutex_;
  std::list<std::shared_ptr<PendingConnection>> pending_;  // the oldest first
};
}  // namespace symm
