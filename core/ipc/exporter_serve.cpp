// SPDX-License-Identifier: Apache-2.0
//
// The exporter on the monitor's thread: who connects, asks and dies. Nothing here waits.
#include <fcntl.h>

#include <array>

#include "core/backends.hpp"
#include "core/base/log.hpp"
#include "core/ipc/exporter.hpp"
#include "core/socket/fdpass.hpp"

namespace symm::ipc {
namespace {

constexpr int kPacketsPerTurn = 64;  // then the others have theirs

}  // namespace

struct Exporter::Door final : Watched {
  explicit Door(Exporter& of) : exporter(of) {}
  void ready(int) noexcept override { exporter.ready(0, -1); }
  Exporter& exporter;
};

std::shared_ptr<Watched> Exporter::make_door() { return std::make_shared<Door>(*this); }

void Exporter::ready(uint64_t serial, int fd) noexcept {
  try {
    DeferredWork after;
    const std::lock_guard lock(mutex_);
    if (!exports_) return;
    if (serial == 0) {
      admit();
    } else if (const auto at = consumers_.find(serial); at != consumers_.end()) {
      if (at->second->is_pidfd(fd)) {
        close_and_drain(*at->second);
        write_off(at, true);
      } else {
        read(at);
      }
    }
    settle(after);
    announce();
  } catch (const std::exception& error) {
    log::write(log::Level::error, "sharing by tokens: %s", error.what());
  }
}

void Exporter::admit() {
  try {
    while (PeerFd socket = listener_->accept(rejected_)) admit_one(std::move(socket));
  } catch (const Error& error) {
    // No descriptor for whoever waits at the door; left there, it would wake us without end.
    log::write(log::Level::warning, "an importer cannot be let in: %s", error.what());
    spare_.reset();
    ++rejected_;
    try {
      const PeerFd refused = listener_->accept(rejected_);
    } catch (const Error&) {
      monitor_.forget(std::exchange(watching_door_, 0));  // another thread took it: the next export opens again
    }
    spare_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
}

void Exporter::admit_one(PeerFd socket) {
  const auto consumer = std::make_shared<Consumer>(*this, ++last_serial_, std::move(socket));
  try {
    consumer->start(monitor_, consumer, board_->fd());
    consumers_.emplace(consumer->serial(), consumer);
    consumer->want_to_hear(waiters_ > 0);
  } catch (const Error& error) {
    Packet refusal;
    refusal.type = PacketType::refusal;
    refusal.lease = 1;
    refusal.status = error.status();
    refusal.text = error.what();
    consumer->send(refusal, {});
    consumer->stop();
    ++rejected_;
  }
}

void Exporter::read(Consumers::iterator at) {
  Consumer& consumer = *at->second;
  std::array<std::byte, kMaxPacket> buffer;
  for (int turn = 0; turn < kPacketsPerTurn && consumer.connected(); ++turn) {
    Packet packet;
    std::string fault;
    try {
      const fdpass::Received received = fdpass::receive(consumer.socket(), buffer);
      if (received.what == fdpass::Received::What::nothing) break;
      if (received.what == fdpass::Received::What::closed) return disconnected(at);
      const char* wrong = received.too_long ? "a packet longer than the longest" : decode({buffer.data(), received.size}, packet);
      if (wrong == nullptr && received.fds_arrived != 0) wrong = "descriptors that nobody asked for";
      if (wrong != nullptr) fault = wrong;
      if (fault.empty()) serve(consumer, packet);
    } catch (const Error& error) {
      fault = error.what();
    }
    if (!fault.empty()) return break_off(at, fault);
  }
  drain(at);
}

void Exporter::serve(Consumer& consumer, const Packet& packet) {
  switch (packet.type) {
    case PacketType::request: return serve_request(consumer, packet);
    case PacketType::nudge:
    case PacketType::bye: return;  // the ring is looked at in any case
    default: throw Error(Status::peer_failed, "a packet that only an exporter sends");
  }
}

void Exporter::serve_request(Consumer& consumer, const Packet& request) {
  ended_ += consumer.drain(*exports_);
  if (consumer.cancelled(request.lease)) return;
  if (consumer.holder().has(request.lease)) throw Error(Status::peer_failed, "it asked for a lease that it has");
  const Token& token = request.token;
  Packet reply;
  reply.lease = request.lease;
  int fd = -1;
  try {
    if (token.exporter != id_) throw Error(Status::invalid_argument, "token: it is of another exporter");
    const ExportedBlock& block = exports_->require_valid(token);
    reply.type = PacketType::grant;
    reply.block_bytes = block.bytes;
    reply.mapped_bytes = block.mapped_bytes;
    if (request.wants_memory) fd = block.block->share().fd;
    reply.descriptors = fd >= 0 ? 1 : 0;
  } catch (const Error& error) {
    ++refused_;
    reply.type = PacketType::refusal;
    reply.descriptors = 0;
    reply.status = error.status();
    reply.text = error.what();
  }
  // Before it is told, so that nobody can see the grant without the lease.
  if (reply.type == PacketType::grant) {
    consumer.holder().grant(*exports_, request.lease, {token.block, token.offset, token.bytes}, token.number);
    if (fd >= 0) consumer.maps(token.block);
    ++grants_;
  }
  if (!consumer.send(reply, {&fd, reply.descriptors})) throw Error(Status::peer_failed, "it does not read what it is sent");
}

// Its leases stay until it is known to be dead.
void Exporter::break_off(Consumers::iterator at, const std::string& why) {
  Consumer& consumer = *at->second;
  log::write(log::Level::warning, "connection of importer %s closed: %s", consumer.name().c_str(), why.c_str());
  ++rejected_;
  consumer.distrust();
  disconnected(at);
}

void Exporter::close_and_drain(Consumer& consumer) {
  consumer.close_socket();
  try {
    ended_ += consumer.drain(*exports_);
  } catch (const Error&) {
    consumer.distrust();
  }
}

void Exporter::disconnected(Consumers::iterator at) {
  Consumer& consumer = *at->second;
  close_and_drain(consumer);
  if (consumer.holder().leases().empty()) {
    consumer.stop();
    consumers_.erase(at);
  } else if (!consumer.death_will_be_known()) {
    write_off(at, false);
  }
}

void Exporter::write_off(Consumers::iterator at, bool surely) {
  const uint64_t leases = at->second->holder().write_off(*exports_, surely);
  if (leases != 0) {
    log::write(log::Level::info, "importer %s is gone with %llu leases", at->second->name().c_str(),
               static_cast<unsigned long long>(leases));
  }
  written_off_ += leases;
  at->second->stop();
  consumers_.erase(at);
}

}  // namespace symm::ipc
