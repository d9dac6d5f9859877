// A connection to a process of this machine: sends in any thread, reads on the monitor's, and
// watches for the peer's death.
#include "core/socket/connection.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/life.hpp"
#include "core/socket/monitor.hpp"
#include "core/socket/socket.hpp"

namespace symm {
void Receiver::on_turn(Connection& connection, bool dead) noexcept { connection.hear(dead); }

Connection::Connection(Receiver& receiver, PeerFd socket, PeerProcess peer, size_t longest)
    : receiver_(receiver),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      longest_(longest),
      generation_(process::fork_generation()) {}

void Connection::start(const std::shared_ptr<void>& owner) {
  const std::shared_ptr<Watched> self(owner, this);
  self_ = self;

  // The socket first: if the pidfd tells of a death at once, the last packets can be read.
  Monitor& monitor = Monitor::current();
  watching_socket_ = monitor.watch(socket_.get(), self);
  if (peer_.pidfd) watching_pidfd_ = monitor.watch(peer_.pidfd.get(), self);
}

void Connection::watch_life(LifeWord word) noexcept {
  if (!word || life_) return;
  life_ = std::move(word);
  try {
    watching_life_ = Life::current().watch(life_, self_);
  } catch (const std::exception&) {
    return;  // no descriptor or no memory for it: the socket will tell of a death
  }
}

void Connection::stop() noexcept {
  // A forked child has no part in its parent's connection.
  if (generation_ != process::fork_generation()) return;
  Monitor::forget(watching_socket_);
  Monitor::forget(watching_pidfd_);
  if (const uint64_t number = watching_life_.exchange(0)) Life::current().forget(number);
}

void Connection::close_socket() noexcept {
  Monitor::forget(watching_socket_);
  socket_.reset();
}

bool Connection::is_dead() const noexcept {
  pollfd at{peer_.pidfd ? peer_.pidfd.get() : socket_.get(),
      static_cast<short>(peer_.pidfd ? POLLIN : 0), 0};
  try {
    return poll_until({&at, 1}, Deadline::after_ms(0));
  } catch (const std::exception&) {
    return false;  // not known for certain
  }
}

fdpass::Sent Connection::send_now(std::span<const std::byte> packet, std::span<const int> fds) {
  return fdpass::send(socket_.get(), packet, fds);
}

fdpass::Sent Connection::send(
    std::span<const std::byte> packet, std::span<const int> fds, Deadline deadline) {
  for (;;) {
    fdpass::Sent sent{};
    const auto attempt = [&] {
      sent = send_now(packet, fds);
      return sent != fdpass::Sent::crowded;
    };
    if (!retry_until(attempt, deadline) || sent != fdpass::Sent::would_block) return sent;

    pollfd room{socket_.get(), POLLOUT, 0};
    if (!poll_until({&room, 1}, deadline)) return sent;
  }
}

void Connection::post(std::span<const std::byte> packet) noexcept {
  try {
    for (int attempt = 0; attempt < 3; ++attempt) {
      if (send_now(packet) != fdpass::Sent::crowded) return;
    }
  } catch (const std::exception&) {
    return;  // the socket has failed; the peer will see it close
  }
}

void Connection::ready(int fd) noexcept {
  receiver_.on_turn(*this, peer_.pidfd && fd == peer_.pidfd.get());
}

void Connection::hear(bool dead) noexcept {
  try {
    const bool dying = has_ended(life_);
    if (dying) is_dying_ = true;

    try {
      read(dead || dying ? INT_MAX : kPacketsPerTurn);
      if (dying && !dead) end(Receiver::End::dying, "");
    } catch (const std::exception& error) {
      end(Receiver::End::failed, error.what());
    }

    if (!dead || watching_pidfd_ == 0) return;
    Monitor::forget(watching_pidfd_);
    receiver_.on_death(manner_of_death(peer_.pidfd.get()));
  } catch (const std::exception&) {
    return;  // out of memory: the deadlines of the waits for this peer remain
  }
}

void Connection::end(Receiver::End end, const std::string& why) {
  if (watching_socket_ == 0) return;
  Monitor::forget(watching_socket_);
  receiver_.on_end(end, why);  // before the shutdown: the receiver may send a last packet
  shutdown(socket_.get(), SHUT_RDWR);
}

void Connection::read(int packets) {
  std::array<std::byte, kLongestPacket> buffer;
  for (int turn = 0; turn < packets && watching_socket_ != 0; ++turn) {
    fdpass::Received received =
        with_reserve([&] { return fdpass::receive(socket_.get(), {buffer.data(), longest_}); });
    if (received.what == fdpass::Received::What::nothing) return;
    SYMM_POINT("socket.read");
    if (received.what == fdpass::Received::What::closed) return end(Receiver::End::closed, "");

    const char* fault = received.too_long
                            ? "a packet longer than the longest"
                            : receiver_.on_packet({buffer.data(), received.size}, received);
    if (fault != nullptr) return end(Receiver::End::broken, fault);
  }
}
}  // namespace symm
