// SPDX-License-Identifier: Apache-2.0
//
// The connection to a rank in another process: its socket, and the pidfd that confirms its death.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/base/peer_fd.hpp"
#include "core/base/wait.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/monitor.hpp"

namespace symm {

class MeshImpl;

class PeerLink final : public Watched, public std::enable_shared_from_this<PeerLink> {
 public:
  PeerLink(std::weak_ptr<MeshImpl> mesh, int peer, PeerFd socket, PeerFd pidfd);
  void start(Monitor& monitor);
  void stop() noexcept;

  // True if sent, false if the peer is gone. Throws Error(timeout) when its queue stays full.
  bool send(std::span<const std::byte> packet, std::span<const int> fds, Deadline deadline);
  // As send(), but what cannot be sent at once is dropped. That needs hundreds of packets unread, so a peer that is stopped: when
  // it goes on, it runs into its deadline or sees our connection close.
  void post(std::span<const std::byte> packet) noexcept;

  void ready(int fd) noexcept override;

 private:
  void read_socket(MeshImpl& mesh, int packets);
  void read_death(MeshImpl& mesh);
  void close_socket(MeshImpl& mesh, const std::string& how);

  const std::weak_ptr<MeshImpl> mesh_;
  const int peer_;
  const PeerFd socket_;  // open until nobody can be sending any more
  const PeerFd pidfd_;
  Monitor* monitor_ = nullptr;
  std::atomic<uint64_t> watching_socket_{0};
  std::atomic<uint64_t> watching_pidfd_{0};
};

}  // namespace symm
