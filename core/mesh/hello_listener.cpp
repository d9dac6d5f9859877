// Accepts sockets and hears their first packet, in the thread that makes the mesh. Nothing of a
// hello is believed until it was checked, and no connection is waited for by itself.
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
constexpr size_t kMaxPendingHellos = 256;  // connections that have not said hello
constexpr int kMaxAcceptedPerTurn = 64;    // so that a turn ends though others go on connecting
}  // namespace

void HelloListener::admit(Deadline deadline, const Admit& admit) {
  std::vector<pollfd> fds{{listener_.get(), POLLIN, 0}};
  for (const PeerFd& socket : pending_) {
    fds.push_back({socket.get(), POLLIN, 0});
  }
  poll_until(fds, deadline);

  accept_some(admit);
  read_hellos(admit);
  while (pending_.size() > kMaxPendingHellos) {
    pending_.pop_front();
    ++refused_;
  }
}

size_t HelloListener::read_hellos(const Admit& admit) {
  return pending_.remove_if([&](PeerFd& socket) { return read_hello(socket, admit); });
}

void HelloListener::accept_some(const Admit& admit) {
  for (int i = 0; i < kMaxAcceptedPerTurn; ++i) {
    try {
      PeerFd socket = listener_.accept(refused_);
      if (!socket) return;
      pending_.push_back(std::move(socket));
    } catch (const Error& error) {
      trouble_ = error.failure();

      // The process is out of descriptors, perhaps because of connections that say nothing: the
      // oldest of them is closed. A rank says hello as soon as it is connected, and the hellos
      // that have come are read before a connection is closed.
      const bool any_spoke = read_hellos(admit) != 0;
      if (pending_.empty()) throw;
      if (any_spoke) continue;
      pending_.pop_front();
      ++refused_;
    }
  }
}

bool HelloListener::read_hello(PeerFd& socket, const Admit& admit) {
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
