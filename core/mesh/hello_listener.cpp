#include "core/mesh/hello_listener.hpp"

#include <poll.h>

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/wait.hpp"
#include "core/mesh/wire.hpp"
#include "core/socket/fdpass.hpp"

namespace symm {
namespace {
constexpr size_t kMaxPending = 256;  // connections that have not said hello
constexpr int kMostAccepted = 64;    // in one look, so that it ends while others connect
}  // namespace

void HelloListener::admit(Deadline deadline, const Admit& admit) {
  std::vector<pollfd> fds{{listener_.get(), POLLIN, 0}};
  for (const PeerFd& socket : pending_) {
    fds.push_back({socket.get(), POLLIN, 0});
  }
  poll_until(fds, deadline);
  accept_some(admit);
  hear(admit);
  for (; pending_.size() > kMaxPending; ++refused_) {
    pending_.pop_front();
  }
}

size_t HelloListener::hear(const Admit& admit) {
  return pending_.remove_if([&](PeerFd& socket) { return heard(socket, admit); });
}

void HelloListener::accept_some(const Admit& admit) {
  for (int i = 0; i < kMostAccepted; ++i) {
    try {
      PeerFd socket = listener_.accept(refused_);
      if (!socket) return;
      pending_.push_back(std::move(socket));
    } catch (const Error& error) {
      trouble_ = error.failure();
      // Out of descriptors, perhaps by connections that say nothing:
      // the oldest goes. A rank says hello as soon as it is connected,
      // and those that did speak are heard before any is turned away.
      const bool spoke = hear(admit) != 0;
      if (pending_.empty()) throw;
      if (spoke) continue;
      pending_.pop_front();
      ++refused_;
    }
  }
}

bool HelloListener::heard(PeerFd& socket, const Admit& admit) {
  std::array<std::byte, wire::kMaxPacket> buffer;
  const fdpass::Received received = fdpass::receive(socket.get(), buffer);
  if (received.what == fdpass::Received::What::nothing) return false;
  wire::Packet packet;
  const bool hello = received.what == fdpass::Received::What::packet && !received.too_long &&
                     received.fds_arrived == 0 &&
                     wire::decode({buffer.data(), received.size}, packet) == nullptr &&
                     packet.header.type == wire::Type::hello;
  if (!hello || !admit(packet.hello, socket)) ++refused_;
  return true;
}
}  // namespace symm
