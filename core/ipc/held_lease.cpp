// A lease in use: what symm_ipc_* asks of it, and its end, which may come after work on a
// stream.
#include "core/ipc/held_lease.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>

#include "core/backend/backend.hpp"
#include "core/backend/provider.hpp"
#include "core/backends.hpp"
#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/reserve.hpp"
#include "core/ipc/bundle.hpp"
#include "symm/symm.h"

namespace symm::ipc {
HeldLease::~HeldLease() {
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

symm_ipc_info_t HeldLease::info() const noexcept {
  symm_ipc_info_t info{};
  info.backend = static_cast<int32_t>(token_.backend);
  info.device = leased_.mapping->as.device;
  info.bytes = token_.bytes;
  info.offset = token_.offset;
  info.block_bytes = is_empty() ? 0 : leased_.mapping->block->size();
  info.host_memory = kind() == BackendKind::host || leased_.mapping->on_host ? 1 : 0;
  if (const BundleTable* const table = leased_.mapping->table.get()) {
    info.bytes = table->piece_bytes();
    info.block_bytes = 0;
    for (const TableBlock& block : table->blocks()) {
      info.block_bytes += block.bytes;
      info.host_memory = info.host_memory != 0 || block.on_host != 0 ? 1 : 0;
    }
  }
  info.exporter_pid = token_.pid;
  info.exporter_alive = !connection_ || connection_->alive() ? 1 : 0;
  info.flags = leased_.mapping->as.access == Access::read_only ? SYMM_IPC_READ_ONLY : 0;
  if (leased_.mapping->is_released && info.exporter_alive != 0) info.flags |= SYMM_IPC_RELEASED;
  return info;
}

const BundleTable& HeldLease::bundle() const {
  if (leased_.mapping->table) return *leased_.mapping->table;
  throw Error(Status::invalid_argument, "ipc: it is no bundle: its token was made for one piece");
}

symm_ipc_piece_t HeldLease::piece(size_t index) const {
  const BundlePiece found = bundle().piece(index);
  symm_ipc_piece_t piece = SYMM_IPC_PIECE_INIT;
  if (found.block != kNoBlock) {
    piece.pointer = leased_.mapping->blocks[found.block]->block->data() + found.offset;
  }
  piece.bytes = found.bytes;
  piece.name = found.name;
  piece.about = found.about;
  piece.about_bytes = found.about_bytes;
  return piece;
}

void HeldLease::let_wait(void* stream) const {
  const Provider& provider = ipc_provider(kind());
  provider.check_stream(stream, leased_.mapping->as.device);
  if (connection_) {
    connection_->wait_for_exporter(token_, provider, stream, leased_.mapping->as.device);
  } else {
    exporter_.wait_for_export(token_, stream, leased_.mapping->as.device);
  }
}

void HeldLease::record_use(void* stream) {
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
}  // namespace symm::ipc
