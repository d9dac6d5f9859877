// A lease in use: what symm_ipc_* asks of it, and its end, which may come after work on a
// stream.
#include "core/ipc/held_lease.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "core/backend/backend.hpp"
#include "core/backend/piece_checks.hpp"
#include "core/backend/provider.hpp"
#include "core/backends.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/reserve.hpp"
#include "core/ipc/bundle.hpp"
#include "core/ipc/exporter_connection.hpp"
#include "core/ipc/kept_addresses.hpp"
#include "core/ipc/mapping.hpp"
#include "core/ipc/shares.hpp"
#include "core/ipc/token.hpp"
#include "core/ipc/token_pad.hpp"
#include "kernels/piece_list.hpp"
#include "symm/symm.h"

namespace symm::ipc {
HeldLease::~HeldLease() { end_lease(); }

void HeldLease::end_lease() noexcept {
  if (is_empty()) return;
  if (!connection_) {
    leased_.mapping.reset();
    if (!is_never_over_) exporter_.release(leased_.lease, over_);
    return;
  }
  // The memory may be exported from here, if its owner is dead.
  for (const auto& block : connection_->release(leased_, token_, over_)) {
    if (block) exporter_.released(block->data());
  }
}

void HeldLease::hold(
    LeasedMapping leased, std::shared_ptr<ExporterConnection> connection) noexcept {
  leased_ = std::move(leased);
  connection_ = std::move(connection);
  if (!is_empty()) shown_ = Shares::show_lease(token_, all_bytes());
}

std::byte* HeldLease::start_of(size_t block) const noexcept {
  if (kept_) return kept_->start(block);
  const Mapping& mapping = *leased_.mapping;
  return mapping.table ? mapping.blocks[block]->block->data() : mapping.block->data();
}

std::byte* HeldLease::data() const noexcept {
  const std::lock_guard lock(mutex_);
  const bool is_piece = token_.bytes != 0 && !table();
  return is_piece ? start_of(0) + token_.offset : nullptr;
}

uint64_t HeldLease::bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return all_bytes();
}

symm_ipc_info_t HeldLease::info() const noexcept {
  const std::lock_guard lock(mutex_);
  symm_ipc_info_t info{};
  info.backend = static_cast<int32_t>(token_.backend);
  info.device = leased_.mapping->as.device;
  info.bytes = token_.bytes;
  info.offset = token_.offset;
  info.block_bytes = is_empty() ? 0 : leased_.mapping->block->size();
  if (kept_) info.block_bytes = kept_->block_bytes();
  info.host_memory = kind() == BackendKind::host || leased_.mapping->on_host ? 1 : 0;
  if (table()) {
    info.bytes = table()->piece_bytes();
    info.block_bytes = 0;
    for (const TableBlock& block : table()->blocks()) {
      info.block_bytes += block.bytes;
      info.host_memory = info.host_memory != 0 || block.on_host != 0 ? 1 : 0;
    }
  }
  info.exporter_pid = token_.pid;
  info.exporter_alive = !kept_ && (!connection_ || connection_->alive()) ? 1 : 0;
  info.flags = leased_.mapping->as.access == Access::read_only ? SYMM_IPC_READ_ONLY : 0;
  if (kept_) info.flags |= SYMM_IPC_SUSPENDED;
  if (leased_.mapping->is_borrowed) info.flags |= SYMM_IPC_DIES_WITH_MAKER;
  if (leased_.mapping->is_released && info.exporter_alive != 0) info.flags |= SYMM_IPC_RELEASED;
  return info;
}

std::shared_ptr<const BundleTable> HeldLease::bundle() const {
  const std::lock_guard lock(mutex_);
  if (table()) return table();
  throw Error(Status::invalid_argument, "ipc: it is no bundle: its token was made for one piece");
}

symm_ipc_piece_t HeldLease::piece(size_t index) const {
  const BundlePiece found = bundle()->piece(index);
  symm_ipc_piece_t piece = SYMM_IPC_PIECE_INIT;
  if (found.block != kNoBlock) {
    const std::lock_guard lock(mutex_);
    piece.pointer = start_of(found.block) + found.offset;
  }
  piece.bytes = found.bytes;
  piece.name = found.name;
  piece.about = found.about;
  piece.about_bytes = found.about_bytes;
  return piece;
}

void HeldLease::require_awake() const {
  if (kept_) throw Error(Status::invalid_argument, "ipc: is suspended, and has no memory");
}

// ---- puts, gets and signals

void HeldLease::require_owner() const {
  if (!connection_ || connection_->alive()) return;
  throw Error({Status::peer_failed, -1, token_.pid,
      format("ipc: process %ld, which made the memory, is gone", token_.pid)});
}

PieceSide HeldLease::Reach::side(size_t offset) const {
  return {offset == 0 ? "the import" : "the import from offset on", bytes - offset};
}

HeldLease::Reach HeldLease::reach(
    size_t offset, const std::optional<OutgoingSignal>& signal, void* stream) const {
  const std::lock_guard lock(mutex_);
  require_awake();
  if (table()) {
    throw Error(Status::invalid_argument,
        "ipc: it is a bundle, and pieces are copied to and from an import of one piece");
  }
  const Reach found{token_.bytes != 0 ? start_of(0) + token_.offset : nullptr, token_.bytes,
      leased_.mapping->as, leased_.pad};
  if (offset > found.bytes) {
    throw Error(Status::invalid_argument,
        format("offset: %zu is beyond the %lu bytes of the import", offset, found.bytes));
  }
  if (signal && !found.pad) {
    throw Error(Status::invalid_argument, "ipc: its token was made without channels");
  }
  if (signal) require_channel(found.pad->shape(), signal->channel, "channel");

  ipc_provider(kind()).check_stream(stream, found.as.device);
  require_owner();
  return found;
}

void HeldLease::put_pieces(size_t offset, const Local& source, const PieceList& list,
    const std::optional<OutgoingSignal>& signal, uint64_t epoch, uint64_t timeout_ms,
    void* stream) {
  const Reach here = reach(offset, signal, stream);
  if (here.as.access == Access::read_only) {
    throw Error(Status::invalid_argument, "ipc: it was imported for reading only");
  }
  if (epoch != 0 && !here.pad) {
    throw Error(Status::invalid_argument,
        format("epoch: %lu, but the token was made without channels, and has no fence", epoch));
  }
  if (epoch == kNoPut) {
    throw Error(Status::invalid_argument, "epoch: is UINT64_MAX, which no fence could exceed");
  }

  const PieceList known = read_on_host(list);
  const size_t bytes = check_pieces(known, {"source", source.bytes}, here.side(offset));
  require_given(source.pointer, bytes, "source");
  const PieceCopy pieces{known, bytes, source.bytes, nullptr};
  const auto copy = [&] {
    ipc_provider(kind()).copy_pieces(
        here.data + offset, source.pointer, pieces, here.as.device, stream);
  };
  if (!here.pad) return copy();
  here.pad->put(known, offset, epoch, timeout_ms, copy, signal);
}

void HeldLease::get_pieces(size_t offset, const Local& destination, const PieceList& list,
    const std::optional<OutgoingSignal>& signal, void* stream) {
  const Reach here = reach(offset, signal, stream);
  const PieceList known = read_on_host(list);
  const size_t bytes = check_pieces(known, here.side(offset), {"destination", destination.bytes});
  require_given(destination.pointer, bytes, "destination");
  const PieceCopy pieces{known, bytes, destination.bytes, nullptr};
  ipc_provider(kind()).copy_pieces(
      destination.pointer, here.data + offset, pieces, here.as.device, stream);
  if (signal) here.pad->send_signal(*signal);
}

void HeldLease::signal_value(const OutgoingSignal& signal, void* stream) {
  reach(0, signal, stream).pad->send_signal(signal);
}

void HeldLease::let_wait(void* stream) const {
  const std::lock_guard lock(mutex_);
  require_awake();
  const Provider& provider = ipc_provider(kind());
  provider.check_stream(stream, leased_.mapping->as.device);
  if (leased_.mapping->is_borrowed && connection_ && !connection_->alive()) {
    throw Error({Status::peer_failed, -1, token_.pid,
        format("ipc: process %ld is gone, and the memory that it had of cudaMalloc with it",
            token_.pid)});
  }
  if (connection_) {
    connection_->wait_for_exporter(token_, provider, stream, leased_.mapping->as.device);
  } else {
    exporter_.wait_for_export(token_, stream, leased_.mapping->as.device);
  }
}

void HeldLease::record_use(void* stream) {
  const std::lock_guard lock(mutex_);
  require_awake();
  if (ipc_provider(kind()).record_use(stream, leased_.mapping->as.device)) {
    has_uses_ = true;
  } else {
    has_unknown_uses_ = true;
  }
}

void HeldLease::note_release(void* stream) noexcept {
  if (kind() == BackendKind::host || is_empty()) return;
  try {
    if (stream != kAllStreams) return record_use(stream);
  } catch (const std::exception&) {
    // A use that cannot be recorded counts as one of any stream.
  }
  has_unknown_uses_ = true;
}

void HeldLease::release_after(void* stream) noexcept {
  if (kind() == BackendKind::host || is_empty()) return;

  const int device = leased_.mapping->as.device;
  try {
    const Provider& provider = ipc_provider(kind());
    const bool everything = has_unknown_uses_ || stream == kAllStreams;

    with_reserve([&] {
      void* last = stream;
      if (everything) {
        last = provider.stream_after(kAllStreams, device);
      } else if (has_uses_) {
        last = provider.stream_after(stream, device);
      }
      if (everything && last == nullptr) {
        return provider.keep_until_done(shared_from_this(), device);
      }
      over_ =
          connection_ ? connection_->mark(provider, last, device) : exporter_.mark(last, device);
    });
  } catch (const std::exception& error) {
    log::write(log::Level::warning,
        "symm_ipc_release: the lease ends with this process, because its stream cannot be asked: "
        "%s",
        error.what());
    over_ = {0, kPassed * 2 - 1};
    is_never_over_ = true;
  }
}

// ---- sleep

// Waits for the work on `stream`, and for the uses that were recorded.
void HeldLease::finish_uses(void* stream) {
  const Provider& provider = ipc_provider(kind());
  const int device = leased_.mapping->as.device;
  const bool everything = has_unknown_uses_ || stream == kAllStreams;
  if (stream != kAllStreams) provider.check_stream(stream, device);

  if (everything) return provider.finish(kAllStreams, device);
  provider.finish(has_uses_ ? provider.stream_after(stream, device) : stream, device);
}

// Only a mapping of this import's own can go, and come back at its address.
void HeldLease::require_own_stays() const {
  if (connection_ || leased_.mapping->as.access == Access::read_write) return;
  throw Error(Status::unsupported,
      "ipc: the memory is this process's own, and was imported for reading only");
}

void HeldLease::suspend(void* stream) {
  const std::lock_guard turn(suspending_);
  require_awake();
  require_own_stays();
  finish_uses(stream);

  LeasedMapping nothing{std::make_shared<Mapping>()};
  nothing.mapping->as = leased_.mapping->as;
  nothing.mapping->on_host = leased_.mapping->on_host;
  std::optional<KeptAddresses> kept;
  if (connection_ && !is_empty()) {
    kept.emplace(*leased_.mapping, connection_->set_apart(leased_));
  } else {
    kept.emplace(*leased_.mapping);
  }

  SYMM_POINT("ipc.suspend");
  std::exception_ptr failure;
  try {
    kept->unmap();
  } catch (const Error&) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  end_lease();
  kept_ = std::move(kept);
  leased_ = std::move(nothing);
  connection_.reset();
  shown_ = {};
  has_uses_ = false;
  if (failure) std::rethrow_exception(failure);
}

void HeldLease::resume(const std::optional<Token>& other, const Take& take) {
  const std::lock_guard turn(suspending_);
  if (!kept_) throw Error(Status::invalid_argument, "ipc: is not suspended");
  const Token token = other.value_or(token_);
  kept_->require_like(token, token_);
  Taken taken = take(token, *kept_);

  const std::lock_guard lock(mutex_);
  token_ = token;
  kept_.reset();
  hold(std::move(taken.leased), std::move(taken.connection));
}
}  // namespace symm::ipc
