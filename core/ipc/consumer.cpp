// SPDX-License-Identifier: Apache-2.0
#include "core/ipc/consumer.hpp"

#include <sys/socket.h>

#include <cstring>

#include "core/base/process_stat.hpp"
#include "core/ipc/exporter.hpp"
#include "core/socket/fdpass.hpp"

namespace symm::ipc {
namespace {

constexpr size_t kMaxCancelled = 1024;  // a consumer has one request a thread under way

}  // namespace

Consumer::Consumer(Exporter& exporter, uint64_t serial, PeerFd socket)
    : exporter_(exporter), serial_(serial), socket_(std::move(socket)) {}

void Consumer::start(Monitor& monitor, const std::shared_ptr<Consumer>& self, int board) {
  process_ = identify(socket_.get());
  if (const auto stat = process_stat(process_.pid)) start_time_ = stat->start;
  page_ = host::Segment::create(sizeof(LeaseRing), "symm-ipc-leases");
  Packet welcome;
  welcome.type = PacketType::welcome;
  welcome.descriptors = 2;
  const int fds[] = {page_->fd(), board};
  if (!send(welcome, fds)) throw Error(Status::peer_failed, "it went at once");
  page_->will_not_be_shared();
  monitor_ = &monitor;
  if (process_.pidfd) watching_pidfd_ = monitor.watch(process_.pidfd.get(), self);
  watching_socket_ = monitor.watch(socket_.get(), self);
}

void Consumer::stop() noexcept {
  close_socket();
  if (watching_pidfd_ != 0) monitor_->forget(std::exchange(watching_pidfd_, 0));
}

void Consumer::close_socket() noexcept {
  if (watching_socket_ != 0) monitor_->forget(std::exchange(watching_socket_, 0));
  socket_.reset();
}

std::string Consumer::name() const {
  return process_.pid != 0 ? format("pid %lld", static_cast<long long>(process_.pid)) : "a process of another pid namespace";
}

void Consumer::apply(const Event& event, Exports& exports, uint64_t& ended) {
  const Piece piece{event.block, event.offset, event.bytes};
  switch (event.kind) {
    case EventKind::claim: {
      const ExportedBlock* block = exports.find(event.block);
      if (block == nullptr) return;  // it has seen that too, and gives the claim up
      if (event.bytes == 0 || event.offset > block->bytes || event.bytes > block->bytes - event.offset ||
          holder_.has(event.lease)) {
        throw Error(Status::peer_failed, "it claimed what there is not");
      }
      holder_.grant(exports, event.lease, piece, event.number);
      exporter_.count_grant();
      return;
    }
    case EventKind::release:
      if (holder_.release(exports, event.lease, {event.word, event.value}, page().words) == Holder::End::now) ++ended;
      return;
    case EventKind::cancel:
      if (holder_.release(exports, event.lease, {}, page().words) == Holder::End::now) {
        exporter_.uncount_grant();
      } else if (cancelled_.insert(event.lease).second && cancelled_.size() > kMaxCancelled) {
        throw Error(Status::peer_failed, "it cancelled what it never asked for");
      }
      return;
  }
  throw Error(Status::peer_failed, "it wrote an unknown event");
}

uint64_t Consumer::drain(Exports& exports) {
  if (broken_ || !page_) return 0;
  uint64_t ended = 0;
  const uint64_t written = page().written.load(std::memory_order_seq_cst);
  if (written != taken_) {
    if (written - taken_ > kEvents) throw Error(Status::peer_failed, "it wrote more events than its ring holds");
    while (taken_ != written) {
      Event event;  // a copy, which it cannot change while we look
      std::memcpy(&event, &page().ring[taken_ % kEvents], sizeof event);
      ++taken_;
      apply(event, exports, ended);
    }
    page().taken.store(taken_, std::memory_order_seq_cst);
    tell_of_room();
  }
  if (holder_.on_streams()) ended += holder_.drain(exports, page().words);
  return ended;
}

void Consumer::want_to_hear(bool each_release) noexcept {
  if (page_) page().waiting.store(each_release ? 1 : 0, std::memory_order_seq_cst);
}

void Consumer::tell_of_room() noexcept {
  if (!connected() || page().crowded.load(std::memory_order_seq_cst) == 0) return;
  try {
    Packet packet;
    packet.type = PacketType::nudge;
    send(packet, {});  // a queue without room for it holds an earlier one
  } catch (const std::exception&) {
    return;  // the connection has failed; it will be noticed
  }
}

bool Consumer::send(const Packet& packet, std::span<const int> fds) {
  return fdpass::send(socket_.get(), encode(packet), fds) == fdpass::Sent::done;
}

void Consumer::retire(uint64_t block) {
  if (mapped_.erase(block) != 0) untold_.push_back(block);
}

void Consumer::tell_retired() noexcept {
  if (!connected()) untold_.clear();
  try {
    while (!untold_.empty()) {
      Packet packet;
      packet.type = PacketType::retired;
      packet.block = untold_.back();
      if (!send(packet, {})) return;
      untold_.pop_back();
    }
  } catch (const std::exception&) {
    return;  // the connection has failed; it will be noticed
  }
}

void Consumer::ready(int fd) noexcept { exporter_.ready(serial_, fd); }

}  // namespace symm::ipc
