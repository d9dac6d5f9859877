// SPDX-License-Identifier: Apache-2.0
//
// The exporter's end of the connection to a process that imports from it. Used with the exporter's lock held.
#pragma once

#include <set>

#include "core/ipc/holder.hpp"
#include "core/ipc/protocol.hpp"
#include "core/socket/monitor.hpp"
#include "core/socket/socket.hpp"

namespace symm::ipc {

class Exporter;

class Consumer final : public Watched {
 public:
  Consumer(Exporter& exporter, uint64_t serial, PeerFd socket);
  // Watches the connection and sends the welcome. Throws.
  void start(Monitor& monitor, const std::shared_ptr<Consumer>& self, int board);
  void stop() noexcept;          // watching
  void close_socket() noexcept;  // and stop watching it; the pidfd stays

  uint64_t serial() const noexcept { return serial_; }
  int64_t pid() const noexcept { return process_.pid; }
  uint64_t start_time() const noexcept { return start_time_; }
  std::string name() const;
  Holder& holder() noexcept { return holder_; }
  bool connected() const noexcept { return static_cast<bool>(socket_); }
  bool death_will_be_known() const noexcept { return watching_pidfd_ != 0; }
  int socket() const noexcept { return socket_.get(); }
  bool is_pidfd(int fd) const noexcept { return process_.pidfd && fd == process_.pidfd.get(); }

  // It does not keep to the protocol: what it writes is not looked at any more.
  void distrust() noexcept { broken_ = true; }
  // Take what it wrote in its ring since. Returns how many leases are over. Throws Error(peer_failed) for nonsense.
  uint64_t drain(Exports& exports);
  // It gave up a request before we read it. Forgotten by being asked.
  bool cancelled(uint64_t lease) { return cancelled_.erase(lease) != 0; }
  void want_to_hear(bool each_release) noexcept;

  // False if the packet cannot be sent now. Throws.
  bool send(const Packet& packet, std::span<const int> fds);
  // Remember that it maps a block; tell it when that is retired. What cannot be told now is told later.
  void maps(uint64_t block) { mapped_.insert(block); }
  void retire(uint64_t block);
  void tell_retired() noexcept;

  void ready(int fd) noexcept override;

 private:
  LeaseRing& page() const noexcept { return *reinterpret_cast<LeaseRing*>(page_->data()); }
  void apply(const Event& event, Exports& exports, uint64_t& ended);
  void tell_of_room() noexcept;

  Exporter& exporter_;
  const uint64_t serial_;
  PeerFd socket_;
  PeerProcess process_;
  uint64_t start_time_ = 0;
  std::shared_ptr<host::Segment> page_;
  Monitor* monitor_ = nullptr;
  uint64_t watching_socket_ = 0;
  uint64_t watching_pidfd_ = 0;
  uint64_t taken_ = 0;
  bool broken_ = false;
  Holder holder_;
  std::set<uint64_t> cancelled_;
  std::set<uint64_t> mapped_;
  std::vector<uint64_t> untold_;
};

}  // namespace symm::ipc
