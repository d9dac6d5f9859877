// SPDX-License-Identifier: Apache-2.0
//
// The importer's end: connecting, and what the exporter says, on the monitor's thread.
#include <sys/stat.h>

#include <array>
#include <cerrno>

#include "core/base/log.hpp"
#include "core/ipc/exporter_link.hpp"

namespace symm::ipc {

std::shared_ptr<ExporterLink> ExporterLink::connect(const Token& token, const std::string& directory, Monitor& monitor,
                                                    Deadline deadline) {
  const auto pid = static_cast<long long>(token.pid);
  struct stat status {};
  if (stat(directory.c_str(), &status) != 0) {
    if (errno == EACCES) {
      throw Error(Status::unavailable,
                  format("the exporter (pid %lld) belongs to another user: %s may not be entered", pid, directory.c_str()));
    }
    throw Error(
        Status::peer_failed,
        format("the exporter (pid %lld) is gone, or its directory %s is not shared with this process", pid, directory.c_str()));
  }
  PeerFd socket;
  const std::string name = hexadecimal(token.exporter);
  try {
    // Nothing is there to be waited for while the exporter's queue is full.
    if (!retry_until([&] { return static_cast<bool>(socket = dial(directory, name)); }, deadline)) {
      throw Error(Status::timeout, format("the exporter (pid %lld) lets nobody in", pid));
    }
  } catch (const Error& error) {
    if (error.status() == Status::peer_failed) throw Error(Status::peer_failed, format("the exporter (pid %lld) is gone", pid));
    throw;
  }
  auto link = std::make_shared<ExporterLink>(std::move(socket), monitor, token);
  link->welcome(deadline);
  link->start();
  return link;
}

void ExporterLink::welcome(Deadline deadline) {
  pidfd_ = identify(socket_.get()).pidfd;
  pollfd readable{socket_.get(), POLLIN, 0};
  if (!poll_until({&readable, 1}, deadline)) throw Error(Status::timeout, exporter_name() + " does not answer");
  std::array<std::byte, kMaxPacket> buffer;
  fdpass::Received received = fdpass::receive(socket_.get(), buffer);
  if (received.what != fdpass::Received::What::packet) {
    throw Error(Status::peer_failed, exporter_name() + " closed the connection; it may be ending, or have no descriptor left");
  }
  Packet packet;
  const char* fault = received.too_long ? "a packet longer than the longest" : decode({buffer.data(), received.size}, packet);
  if (fault != nullptr) throw Error(Status::peer_failed, exporter_name() + " sent " + fault);
  if (packet.type == PacketType::refusal)
    throw Error(packet.status, exporter_name() + " cannot let this process in: " + packet.text);
  if (packet.type != PacketType::welcome) throw Error(Status::peer_failed, exporter_name() + " did not begin with a welcome");
  if (received.fds.size() != packet.descriptors) {
    throw Error(Status::system, "a descriptor could not be received: Too many open files (EMFILE)?");
  }
  page_ = host::Segment::import(std::move(received.fds[0]), sizeof(LeaseRing));
  board_ = host::Segment::import(std::move(received.fds[1]), sizeof(ValidityBoard));
}

void ExporterLink::start() {
  const std::lock_guard lock(mutex_);
  if (pidfd_) watching_pidfd_ = monitor_.watch(pidfd_.get(), weak_from_this());
  watching_socket_ = monitor_.watch(socket_.get(), weak_from_this());
}

void ExporterLink::ready(int fd) noexcept {
  std::vector<std::shared_ptr<Block>> garbage;
  if (pidfd_ && fd == pidfd_.get()) {
    lost(exporter_name() + " is dead", garbage);
    pass_all_positions();
    const std::lock_guard lock(mutex_);
    if (watching_pidfd_ != 0) monitor_.forget(std::exchange(watching_pidfd_, 0));
    return;
  }
  try {
    read();
  } catch (const std::exception& error) {
    lost(exporter_name() + " can no longer be heard: " + error.what(), garbage);
  }
}

void ExporterLink::read() {
  std::array<std::byte, kMaxPacket> buffer;
  std::vector<std::shared_ptr<Block>> garbage;
  for (;;) {
    fdpass::Received received = fdpass::receive(socket_.get(), buffer);
    if (received.what == fdpass::Received::What::nothing) return;
    if (received.what == fdpass::Received::What::closed) {
      lost(exporter_name() + " is gone", garbage);
      if (!pidfd_) pass_all_positions();  // nothing better will be known
      return;
    }
    Packet packet;
    const char* fault = received.too_long ? "a packet longer than the longest" : decode({buffer.data(), received.size}, packet);
    if (fault != nullptr) {
      log::write(log::Level::warning, "%s broke the protocol: %s", exporter_name().c_str(), fault);
      return lost(exporter_name() + " broke the protocol: " + fault, garbage);
    }
    if (packet.type == PacketType::nudge) {
      continue_telling();
    } else {
      handle(packet, std::move(received.fds), garbage);
    }
  }
}

void ExporterLink::handle(Packet& packet, std::vector<Fd> fds, std::vector<std::shared_ptr<Block>>& garbage) {
  const std::lock_guard lock(mutex_);
  if (packet.type == PacketType::retired) {
    for (auto at = mapped_.begin(); at != mapped_.end();) {
      const auto current = at++;
      const std::shared_ptr<Mapped> mapped = current->second;
      if (current->first.first != packet.block) continue;
      mapped->retired = true;
      forget(current->first, *mapped, garbage);
    }
    return;
  }
  if (!awaited_ || awaited_->lease != packet.lease) return;  // whoever asked has given up
  awaited_->packet = std::move(packet);
  if (!fds.empty()) awaited_->fd = std::move(fds.front());
  awaited_->done.store(1, std::memory_order_release);
  wake_all(awaited_->done);
}

// What is mapped stays with those who use it.
void ExporterLink::lost(const std::string& how, std::vector<std::shared_ptr<Block>>& garbage) noexcept {
  const std::lock_guard lock(mutex_);
  alive_.store(false, std::memory_order_release);
  if (watching_socket_ != 0) monitor_.forget(std::exchange(watching_socket_, 0));
  untold_.clear();
  for (auto at = mapped_.begin(); at != mapped_.end();) {
    const auto current = at++;
    const std::shared_ptr<Mapped> mapped = current->second;
    forget(current->first, *mapped, garbage);
  }
  if (!awaited_ || awaited_->done.load() != 0) return;
  awaited_->fault = how;
  awaited_->done.store(1, std::memory_order_release);
  wake_all(awaited_->done);
}

}  // namespace symm::ipc
