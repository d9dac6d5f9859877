// An importer's connection to one exporter: claims and requests of leases in the thread that
// imports, answers on the monitor's thread.
#include "core/ipc/exporter_connection.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/borrowed.hpp"
#include "core/backend/provider.hpp"
#include "core/backend/segment.hpp"
#include "core/base/background_tasks.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/layouts.hpp"
#include "core/base/log.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/ipc/bundle.hpp"
#include "core/ipc/kept_addresses.hpp"
#include "core/ipc/lease_ring.hpp"
#include "core/ipc/mapping.hpp"
#include "core/ipc/protocol.hpp"
#include "core/ipc/token.hpp"
#include "core/ipc/token_pad.hpp"
#include "core/ipc/validity_board.hpp"
#include "core/socket/fdpass.hpp"
#include "core/socket/socket.hpp"
#include "symm/symm.h"

namespace symm::ipc {
namespace {
std::string exporter_name(int64_t pid) { return format("the exporter (pid %ld)", pid); }

// An Error that says of the exporter what is wrong with it.
Error error_of(int64_t pid, Status status, const std::string& what) {
  return Error(Failure{status, -1, pid, exporter_name(pid) + " " + what});
}

PeerFd dial_exporter(const Token& token, const std::string& directory, Deadline deadline) {
  PeerFd socket;
  const std::string name = hexadecimal(token.exporter);
  try {
    // Nothing is there to be waited for while the exporter's queue is full.
    const auto dials = [&] {
      socket = dial(directory, name);
      return static_cast<bool>(socket);
    };
    if (!retry_until(dials, deadline)) {
      throw error_of(token.pid, Status::timeout, "lets nobody in");
    }
  } catch (const Error& error) {
    if (error.status() == Status::peer_failed) {
      throw error_of(token.pid, Status::peer_failed, "is gone");
    }
    const int code = error.failure().os_error;
    if (code == EACCES) {
      throw error_of(token.pid, Status::unavailable,
          format("belongs to another user: %s may not be entered", directory.c_str()));
    }
    if (code == ENOENT) {
      throw error_of(token.pid, Status::peer_failed,
          format(
              "is gone, or its directory %s is not shared with this process", directory.c_str()));
    }
    throw;
  }

  return socket;
}

// The lease ring and the validity board.
std::vector<Fd> receive_welcome(const PeerFd& socket, int64_t pid, Deadline deadline) {
  pollfd readable{socket.get(), POLLIN, 0};
  if (!poll_until({&readable, 1}, deadline)) {
    throw error_of(pid, Status::timeout, "does not answer");
  }

  std::array<std::byte, kMaxPacket> buffer;
  fdpass::Received received = fdpass::receive(socket.get(), buffer);
  if (received.what != fdpass::Received::What::packet) {
    throw error_of(pid, Status::peer_failed,
        "closed the connection; it may be ending, or have no descriptor left");
  }

  Packet packet;
  const char* fault = received.too_long ? "a packet longer than the longest"
                                        : decode({buffer.data(), received.size}, packet);
  if (fault == kOtherNumber) {
    throw Error({Status::unsupported, -1, pid,
        stamp_difference(layouts::leases, packet.stamp, exporter_name(pid))});
  }
  if (fault != nullptr) throw error_of(pid, Status::peer_failed, std::string("sent ") + fault);

  if (packet.type == PacketType::refusal) {
    Failure failure = packet.failure;
    failure.pid = pid;
    failure.message = exporter_name(pid) + " cannot let this process in: " + failure.message;
    throw Error(std::move(failure));
  }

  if (packet.type != PacketType::welcome) {
    throw error_of(pid, Status::peer_failed, "did not begin with a welcome");
  }

  if (received.fds.size() != packet.descriptors) {
    throw Error(Status::system,
        "a descriptor could not be received: Too many open files (EMFILE)? Try ulimit -n 4096");
  }

  return std::move(received.fds);
}
}  // namespace

std::shared_ptr<ExporterConnection> ExporterConnection::connect(
    const Token& token, const std::string& directory, Deadline deadline) {
  PeerFd socket = dial_exporter(token, directory, deadline);
  SYMM_POINT("ipc.dial");
  PeerProcess process = identify(socket.get());
  std::vector<Fd> shared = receive_welcome(socket, token.pid, deadline);
  SYMM_POINT("ipc.welcome");
  auto ring = host::Segment::import(std::move(shared[0]), sizeof(LeaseRing));
  auto board = host::Segment::import(std::move(shared[1]), sizeof(ValidityBoard));
  auto made = std::make_shared<ExporterConnection>(
      token, std::move(socket), std::move(process), std::move(ring), std::move(board));
  made->connection_.start(made);
  made->share_life();

  return made;
}

ExporterConnection::ExporterConnection(const Token& token, PeerFd socket, PeerProcess process,
    std::shared_ptr<host::Segment> ring, std::shared_ptr<host::Segment> board)
    : pid_(token.pid),
      connection_(*this, std::move(socket), std::move(process), kMaxPacket),
      board_segment_(std::move(board)),
      board_(ValidityBoard::in(*board_segment_)),
      ring_(std::move(ring)) {}

void ExporterConnection::share_life() noexcept {
  try {
    if (!held_.hold()) return;
    const int fd = Life::current().fd();
    connection_.send_now(
        encode({.type = PacketType::life, .descriptors = 1, .block = held_.index()}), {&fd, 1});
  } catch (const std::exception&) {
    return;  // should this process become another program, its leases stay until that ends
  }
}

// ---- leases taken without asking

void ExporterConnection::nudge(bool now) noexcept {
  if (!ring_.nudge_is_due(now)) return;
  connection_.post(encode({.type = PacketType::nudge}));
}

void ExporterConnection::write_or_defer(const LeaseRing::Event& event) {
  ring_.write_or_defer(event);
  nudge(ring_.exporter_waits());
}

LeasedMapping ExporterConnection::claim(const Token& token, MappedAs as) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Mapping> mapping = mappings_.find(token, as);
  if (!alive() || !mapping || !mapping->block || mapping->retired) return {};
  if (token.slot == kNoSlot || token.slot != mapping->origin.slot ||
      !same_secret(token.secret, mapping->origin.secret) ||
      token.offset + token.bytes > mapping->block->size() || !ring_.flush()) {
    return {};
  }

  LeaseRing::Event event{.kind = LeaseRing::Kind::claim,
      .lease = last_lease_ + 1,
      .block = token.block,
      .number = token.number,
      .offset = token.offset,
      .bytes = token.bytes};

  if (!ring_.write(event)) {
    nudge(true);
    return {};
  }

  ++last_lease_;
  event.kind = LeaseRing::Kind::cancel;
  try {
    SYMM_POINT("ipc.claimed");
    // The claim is written, and only now may the board be looked at (see
    // lease_ring.hpp): both are sequentially consistent.
    if (board_.is_valid(token, mapping->block->size())) {
      nudge(false);
      mappings_.add_piece(*mapping, token);
      ++mapping->users;
      return {mapping, event.lease};
    }
  } catch (...) {
    write_or_defer(event);
    throw;
  }

  write_or_defer(event);
  return {};
}

Mappings::Garbage ExporterConnection::release(
    const LeasedMapping& leased, const Token& token, Position position) noexcept {
  Mappings::Garbage garbage;
  const std::lock_guard lock(mutex_);
  mappings_.remove_piece(*leased.mapping, token);
  --leased.mapping->users;

  try {
    if (alive()) {
      write_or_defer({.kind = LeaseRing::Kind::release,
          .word = position.word,
          .value = position.value,
          .lease = leased.lease});
    }
    mappings_.forget(*leased.mapping, garbage);
  } catch (const std::bad_alloc&) {
    // The lease ends with this process.
  }

  return garbage;
}

std::vector<std::shared_ptr<Block>> ExporterConnection::set_apart(const LeasedMapping& leased) {
  Mappings::Garbage garbage;
  const std::lock_guard lock(mutex_);
  return mappings_.set_apart(*leased.mapping, garbage);
}

// ---- asking

// A number for the lease that is asked for, and the place for the answer. The lock is held.
std::shared_ptr<ExporterConnection::Reply> ExporterConnection::expect(
    Packet& request, LeasedMapping& leased) {
  auto reply = std::make_shared<Reply>();
  ++last_lease_;
  request.lease = last_lease_;
  reply->lease = last_lease_;
  leased.lease = last_lease_;
  awaited_ = reply;
  return reply;
}

// Sends the request, and waits for the grant. `may_be_granted` says, if this throws, whether the
// exporter may have granted it all the same.
void ExporterConnection::ask(const Packet& request, const std::shared_ptr<Reply>& reply,
    Deadline deadline, bool& may_be_granted) {
  may_be_granted = false;
  const fdpass::Sent sent = connection_.send(encode(request), {}, deadline);
  if (sent == fdpass::Sent::closed) {
    lost("is gone");  // the next attempt makes a new connection
    throw error_of(pid_, Status::peer_failed, "is gone");
  }
  if (sent != fdpass::Sent::done) {
    throw error_of(pid_, Status::timeout, "does not read what it is sent");
  }

  may_be_granted = true;
  SYMM_POINT("ipc.requested");
  if (!await_change(reply->done, deadline,
          [&] { return reply->done.load(std::memory_order_acquire) != 0; })) {
    const auto stat = process::stat_of(pid_);
    throw error_of(pid_, Status::timeout,
        stat && stat->stopped() ? "does not answer: it is stopped" : "does not answer");
  }

  if (!reply->fault.empty()) throw error_of(pid_, Status::peer_failed, reply->fault);
  const Packet& answer = reply->packet;
  if (answer.type == PacketType::refusal) {
    may_be_granted = false;
    throw Error(answer.failure);
  }
  const Token& token = request.token;
  if (token.bytes > answer.extent.bytes || token.offset > answer.extent.bytes - token.bytes) {
    throw error_of(pid_, Status::peer_failed, "granted a piece beyond the end of its block");
  }
  if (reply->is_short || (request.wants_memory && request.from == 0 && !reply->fd)) {
    throw Error(Status::system,
        "the memory's descriptor could not be received: Too many open files (EMFILE)? Try "
        "ulimit -n 4096");
  }
}

// A failure at any step gives back what the steps before it took.
LeasedMapping ExporterConnection::request(const Token& token, MappedAs as, const Provider& provider,
    Deadline deadline, const KeptAddresses* kept) {
  Mappings::Garbage garbage;
  LeasedMapping leased;
  std::shared_ptr<Reply> reply;
  Packet request{.type = PacketType::request, .token = token};
  {
    const std::lock_guard lock(mutex_);
    leased.mapping = mappings_.place(token, as);
    request.wants_memory = leased.mapping->block == nullptr;
    reply = expect(request, leased);
  }

  bool may_be_granted = false;
  try {
    ask(request, reply, deadline, may_be_granted);
    if (reply->pad) leased.pad = pad_of(token, *reply);
    if (!request.wants_memory) {
      const std::lock_guard lock(mutex_);
      awaited_.reset();
      mappings_.add_piece(*leased.mapping, token);
    } else if (token.is_bundle) {
      take_bundle(leased, token, provider, *reply, deadline, kept);
    } else {
      take(leased, token, provider, *reply, kept);
    }
    return leased;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    awaited_.reset();
    --leased.mapping->users;
    if (may_be_granted && alive()) {
      write_or_defer({.kind = LeaseRing::Kind::cancel, .lease = leased.lease});
    }
    mappings_.forget(*leased.mapping, garbage);
    throw;
  }
}

std::shared_ptr<ImportedPad> ExporterConnection::pad_of(const Token& token, Reply& reply) const {
  const PadShape& shape = reply.packet.pad;
  if (shape.bytes != token.bytes) {
    throw error_of(pid_, Status::peer_failed, "granted the pad of another piece");
  }
  auto segment = host::Segment::import(std::move(reply.pad), TokenPad::bytes(shape));
  return std::make_shared<ImportedPad>(
      TokenPad(std::move(segment), shape), static_cast<uint32_t>(reply.packet.writer));
}

void ExporterConnection::take(LeasedMapping& leased, const Token& token, const Provider& provider,
    Reply& reply, const KeptAddresses* kept) {
  const MappedAs as = leased.mapping->as;
  const BlockExtent& extent = reply.packet.extent;
  std::shared_ptr<Block> block =
      kept != nullptr ? kept->remap(0, std::move(reply.fd), extent)
                      : provider.memory(as.device)->import(std::move(reply.fd), extent, as.access);

  const std::lock_guard lock(mutex_);
  awaited_.reset();
  leased.mapping->block = std::move(block);
  leased.mapping->on_host = extent.on_host != 0;
  leased.mapping->is_borrowed = is_borrowed(leased.mapping->block.get());
  mappings_.add_piece(*leased.mapping, token);
}

// ---- bundles

void ExporterConnection::take_more(Arrived& arrived, Reply& reply) const {
  if (!arrived.table) arrived.table = BundleTable::import(std::move(reply.fd));
  std::move(reply.parts.begin(), reply.parts.end(), std::back_inserter(arrived.blocks));
  const size_t all = arrived.table->blocks().size();
  if (reply.parts.empty() || arrived.blocks.size() != reply.packet.block ||
      arrived.blocks.size() > all) {
    throw error_of(pid_, Status::peer_failed, "sent other blocks of a bundle than it says");
  }
}

// The blocks of the bundle, null where this process has mapped one already.
std::vector<std::shared_ptr<Block>> ExporterConnection::map_missing(
    Arrived& arrived, MappedAs as, const Provider& provider, const KeptAddresses* kept) {
  const std::span<const TableBlock> blocks = arrived.table->blocks();
  std::vector<std::shared_ptr<Block>> mapped(blocks.size());
  std::vector<bool> is_there(blocks.size());
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < blocks.size(); ++i) {
      Token named;
      named.block = blocks[i].id;
      const std::shared_ptr<Mapping> known = mappings_.find(named, as);
      is_there[i] = known && known->block && !known->retired;
      if (is_there[i]) mapped[i] = known->block;  // so that it stays until the bundle uses it
    }
  }

  const std::shared_ptr<ShareableMemory> memory = provider.memory(as.device);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (is_there[i]) continue;
    const BlockExtent extent{blocks[i].bytes, blocks[i].mapped, 0, blocks[i].on_host};
    Fd& fd = arrived.blocks[i];
    mapped[i] = kept != nullptr ? kept->remap(i, std::move(fd), extent)
                                : memory->import(std::move(fd), extent, as.access);
    SYMM_POINT("ipc.mapped");
  }
  return mapped;
}

// The grant has the table and the first blocks. The others are asked for, with leases that end as
// soon as they have come.
void ExporterConnection::take_bundle(LeasedMapping& leased, const Token& token,
    const Provider& provider, Reply& reply, Deadline deadline, const KeptAddresses* kept) {
  Arrived arrived;
  take_more(arrived, reply);
  if (kept != nullptr) kept->require_like(*arrived.table);
  while (arrived.blocks.size() < arrived.table->blocks().size()) {
    LeasedMapping more;
    std::shared_ptr<Reply> next;
    Packet request{.type = PacketType::request, .token = token};
    request.wants_memory = true;
    request.from = arrived.blocks.size();
    {
      const std::lock_guard lock(mutex_);
      next = expect(request, more);
    }

    bool may_be_granted = false;
    const auto end_lease = [&] {
      const std::lock_guard lock(mutex_);
      awaited_.reset();
      if (may_be_granted && alive()) {
        write_or_defer({.kind = LeaseRing::Kind::cancel, .lease = more.lease});
      }
    };
    try {
      ask(request, next, deadline, may_be_granted);
    } catch (...) {
      end_lease();
      throw;
    }
    end_lease();
    take_more(arrived, *next);
  }

  std::vector<std::shared_ptr<Block>> blocks =
      map_missing(arrived, leased.mapping->as, provider, kept);
  Mappings::Garbage garbage;
  const std::lock_guard lock(mutex_);
  awaited_.reset();
  mappings_.complete(*leased.mapping, std::move(arrived.table), std::move(blocks), garbage);
  mappings_.add_piece(*leased.mapping, token);
}

// ---- what the exporter says, on the monitor's thread

const char* ExporterConnection::on_packet(
    std::span<const std::byte> bytes, fdpass::Received& received) {
  Packet packet;
  if (const char* fault = with_reserve([&] { return decode(bytes, packet); })) return fault;
  answer(packet, received.fds);
  return nullptr;
}

void ExporterConnection::answer(Packet& packet, std::vector<Fd>& fds) {
  DroppedElsewhere<Mappings::Garbage> garbage;
  const std::lock_guard lock(mutex_);
  if (packet.type == PacketType::nudge) {  // there is room
    const bool all = with_reserve([&] { return ring_.flush(); });
    return nudge(!all || ring_.exporter_waits());
  }

  if (packet.type == PacketType::retired || packet.type == PacketType::withdrawn) {
    const bool is_withdrawn = packet.type == PacketType::withdrawn;
    return with_reserve([&] { mappings_.retire(packet.block, is_withdrawn, garbage); });
  }

  if (!awaited_ || awaited_->lease != packet.lease) return;  // the thread that asked has given up
  awaited_->is_short = awaited_->is_short || fds.size() != packet.descriptors;
  if (packet.type == PacketType::part) {
    with_reserve([&] { awaited_->parts.reserve(awaited_->parts.size() + fds.size()); });
    std::move(fds.begin(), fds.end(), std::back_inserter(awaited_->parts));
    return;
  }

  awaited_->packet = std::move(packet);
  if (!fds.empty() && awaited_->packet.pad.channels != 0) {
    awaited_->pad = std::move(fds.back());
    fds.pop_back();
  }
  if (!fds.empty()) awaited_->fd = std::move(fds.front());
  tell_change(awaited_->done);
}

void ExporterConnection::on_end(End end, const std::string& why) {
  if (end == End::broken) {
    log::write(
        log::Level::warning, "%s broke the protocol: %s", exporter_name(pid_).c_str(), why.c_str());
  }
  switch (end) {
    case End::closed: lost("is gone"); break;
    case End::broken: lost("broke the protocol: " + why); break;
    default: lost("can no longer be heard: " + why); break;
  }
  // A better reason will not become known.
  if (end == End::closed && !connection_.peer().pidfd) pass_all_positions();
}

void ExporterConnection::on_death(const std::string&) {
  lost("is dead");
  pass_all_positions();
}

// Mappings stay with the imports that use them.
void ExporterConnection::lost(const std::string& how) noexcept {
  DroppedElsewhere<Mappings::Garbage> garbage;
  const std::lock_guard lock(mutex_);
  alive_.store(false, std::memory_order_release);
  ring_.drop_deferred();
  with_reserve([&] { mappings_.orphan(garbage); });
  if (!awaited_ || awaited_->done.load() != 0) return;
  awaited_->fault = how;
  tell_change(awaited_->done);
}

// ---- streams

void ExporterConnection::wait_for_exporter(
    const Token& token, const Provider& provider, void* stream, int device) {
  if (is_passed(token.position, board_.words)) return;
  StreamWords* words = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!exporters_words_) exporters_words_ = provider.stream_words(board_segment_, board_.words);
    words = exporters_words_.get();
  }
  if (words != nullptr) words->wait(stream, device, token.position);
  // An exporter that died in between passes no positions, so this process lets the stream go on.
  // An exporter that is alive but out of contact still passes them, for all its importers.
  if (is_gone_.load(std::memory_order_acquire)) pass_all_positions();
}

Position ExporterConnection::mark(const Provider& provider, void* stream, int device) {
  StreamWords* words = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!own_words_) own_words_ = provider.stream_words(ring_.segment(), ring_.words());
    words = own_words_.get();
  }
  return words != nullptr ? words->mark(stream, device) : Position{};
}

void ExporterConnection::pass_all_positions() noexcept {
  is_gone_.store(true, std::memory_order_release);
  for (auto& word : board_.words) {
    word.store(kPassed, std::memory_order_release);
  }
}

// ---- what is there

std::shared_ptr<Mapping> ExporterConnection::containing(
    const void* pointer, uint64_t bytes, Token& token) {
  const std::lock_guard lock(mutex_);
  return mappings_.containing(pointer, bytes, token);
}

size_t ExporterConnection::drop_unused() {
  Mappings::Garbage garbage;
  const std::lock_guard lock(mutex_);
  mappings_.drop_unused(garbage);
  return garbage.size();
}

bool ExporterConnection::close_if_idle() {
  const std::lock_guard lock(mutex_);
  if (!mappings_.empty() || awaited_) return false;
  if (alive()) {
    if (!ring_.flush()) return false;
    connection_.post(encode({.type = PacketType::bye}));
  }
  return true;
}

void ExporterConnection::add_to(symm_ipc_stats_t& stats) {
  const std::lock_guard lock(mutex_);
  mappings_.add_to(stats);
  stats.exporters += alive() ? 1 : 0;
}
}  // namespace symm::ipc
