// SPDX-License-Identifier: Apache-2.0
//
// The connection to a rank in another process, and what comes over it, sorted for the mesh.
#pragma once

#include <memory>
#include <span>

#include "core/socket/connection.hpp"

namespace symm {

class MeshImpl;

class PeerLink final : public Receiver {
 public:
  PeerLink(std::weak_ptr<MeshImpl> mesh, int peer, PeerFd socket, PeerProcess process);
  Connection& connection() noexcept { return connection_; }

 private:
  const char* on_packet(std::span<const std::byte> bytes, fdpass::Received& received) override;
  void on_end(End end, const std::string& why) override;
  void on_death(const std::string& manner) override;

  const std::weak_ptr<MeshImpl> mesh_;
  const int peer_;
  Connection connection_;
};

}  // namespace symm
