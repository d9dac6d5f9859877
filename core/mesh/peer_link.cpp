// SPDX-License-Identifier: Apache-2.0
#include "core/mesh/peer_link.hpp"

#include <sys/socket.h>

#include <array>
#include <climits>

#include "core/mesh/mesh_impl.hpp"
#include "core/socket/socket.hpp"

namespace symm {
namespace {

constexpr int kPacketsPerTurn = 64;  // then the other peers have theirs

const char* fault_of(const fdpass::Received& received, const wire::Header& header) {
  if (received.fds_cut && received.fds_arrived >= header.nfds) return "more descriptors than allowed";
  if (!received.fds_cut && received.fds.size() != header.nfds) return "another number of descriptors than announced";
  return nullptr;
}

}  // namespace

PeerLink::PeerLink(std::weak_ptr<MeshImpl> mesh, int peer, PeerFd socket, PeerFd pidfd)
    : mesh_(std::move(mesh)), peer_(peer), socket_(std::move(socket)), pidfd_(std::move(pidfd)) {}

void PeerLink::start(Monitor& monitor) {
  monitor_ = &monitor;
  if (pidfd_) watching_pidfd_ = monitor.watch(pidfd_.get(), weak_from_this());
  watching_socket_ = monitor.watch(socket_.get(), weak_from_this());
}

void PeerLink::stop() noexcept {
  if (monitor_ == nullptr) return;
  if (const uint64_t number = watching_socket_.exchange(0)) monitor_->forget(number);
  if (const uint64_t number = watching_pidfd_.exchange(0)) monitor_->forget(number);
}

bool PeerLink::send(std::span<const std::byte> packet, std::span<const int> fds, Deadline deadline) {
  for (;;) {
    const fdpass::Sent sent = fdpass::send(socket_.get(), packet, fds);
    if (sent != fdpass::Sent::would_block) return sent == fdpass::Sent::done;
    pollfd room{socket_.get(), POLLOUT, 0};
    if (!poll_until({&room, 1}, deadline)) throw Error(Status::timeout, "");
  }
}

void PeerLink::post(std::span<const std::byte> packet) noexcept {
  try {
    fdpass::send(socket_.get(), packet, {});
  } catch (const std::exception&) {
    return;  // the socket has failed; its closing is what the peer will hear
  }
}

void PeerLink::ready(int fd) noexcept {
  const std::shared_ptr<MeshImpl> mesh = mesh_.lock();
  if (!mesh) return;  // about to be forgotten
  try {
    // A death may be told before the dead peer's last words were read.
    const bool dead = fd == pidfd_.get();
    if (watching_socket_ != 0) read_socket(*mesh, dead ? INT_MAX : kPacketsPerTurn);
    if (dead) read_death(*mesh);
  } catch (const std::exception& error) {
    close_socket(*mesh, std::string("can no longer be listened to: ") + error.what());
  }
}

void PeerLink::close_socket(MeshImpl& mesh, const std::string& how) {
  if (const uint64_t number = watching_socket_.exchange(0)) monitor_->forget(number);
  shutdown(socket_.get(), SHUT_RDWR);
  mesh.on_gone(peer_, how);
}

void PeerLink::read_death(MeshImpl& mesh) {
  if (const uint64_t number = watching_pidfd_.exchange(0)) monitor_->forget(number);
  mesh.on_confirmed_dead(peer_, manner_of_death(pidfd_.get()));
}

void PeerLink::read_socket(MeshImpl& mesh, int packets) {
  std::array<std::byte, wire::kMaxPacket> buffer;
  for (int turn = 0; turn < packets; ++turn) {
    fdpass::Received received = fdpass::receive(socket_.get(), buffer);
    if (received.what == fdpass::Received::What::nothing) return;
    if (received.what == fdpass::Received::What::closed) return close_socket(mesh, "died: its connection closed");
    wire::Packet packet;
    const char* fault =
        received.too_long ? "a packet longer than the longest" : wire::decode({buffer.data(), received.size}, packet);
    if (fault == nullptr && packet.header.source != peer_) fault = "a packet in another rank's name";
    if (fault == nullptr) fault = fault_of(received, packet.header);
    if (fault != nullptr) return close_socket(mesh, std::string("broke the protocol: ") + fault);
    mesh.on_packet(peer_, packet, std::move(received.fds), received.fds_cut);
  }
}

}  // namespace symm
