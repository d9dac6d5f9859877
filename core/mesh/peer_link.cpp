// SPDX-License-Identifier: Apache-2.0
#include "core/mesh/peer_link.hpp"

#include "core/mesh/mesh_impl.hpp"

namespace symm {

PeerLink::PeerLink(std::weak_ptr<MeshImpl> mesh, int peer, PeerFd socket, PeerProcess process)
    : mesh_(std::move(mesh)), peer_(peer), connection_(*this, std::move(socket), std::move(process), wire::kMaxPacket) {}

const char* PeerLink::on_packet(std::span<const std::byte> bytes, fdpass::Received& received) {
  wire::Packet packet;
  if (const char* fault = wire::decode(bytes, packet)) return fault;
  if (packet.header.source != peer_) return "a packet in another rank's name";
  if (received.fds_cut && received.fds_arrived >= packet.header.nfds) return "more descriptors than allowed";
  if (!received.fds_cut && received.fds.size() != packet.header.nfds) return "another number of descriptors than announced";
  if (const auto mesh = mesh_.lock()) mesh->on_packet(peer_, packet, std::move(received.fds), received.fds_cut);
  return nullptr;
}

void PeerLink::on_end(End end, const std::string& why) {
  const auto mesh = mesh_.lock();
  if (!mesh) return;  // about to be forgotten
  switch (end) {
    case End::closed: return mesh->on_gone(peer_, "died: its connection closed");
    case End::broken: return mesh->on_gone(peer_, "broke the protocol: " + why);
    case End::failed: return mesh->on_gone(peer_, "can no longer be listened to: " + why);
  }
}

void PeerLink::on_death(const std::string& manner) {
  if (const auto mesh = mesh_.lock()) mesh->on_confirmed_dead(peer_, manner);
}

}  // namespace symm
