// A lease in use: what symm_ipc_* asks of it, and its end, which may come after work on a
// stream.
#include "core/ipc/held_lease.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>

#include "core/backend/backend.hpp"
#include "core/backend/provider.hpp"
#include "core/backends.hpp"
#include "core/base/log.hpp"
#include "core/base/reserve.hpp"
#include "symm/symm.h"

namespace symm::ipc {
HeldLease::~HeldLease() {
  if (is_empty()) return;
  if (!connection_) {
    leased_.mapping.reset();
    if (!is_never_over_) exporter_.release(leased_.lease, over_);
    return;
  }
  const std::byte* const data = leased_.mapping->block->data();
  // The memory may be exported from here, if its owner is dead.
  if (connection_->release(leased_, token_, over_)) exporter_.released(data);
}

symm_ipc_info_t HeldLease::info() const noexcept {
  symm_ipc_info_t info{};
  info.backend = static_cast<int32_t>(token_.backend);
  info.device = leased_.mapping->device;
  info.bytes = token_.bytes;
  info.offset = token_.offset;
  info.block_bytes = is_empty() ? 0 : leased_.mapping->block->size();
  info.exporter_pid = token_.pid;
  info.exporter_alive = !connection_ || connection_->alive() ? 1 : 0;
  info.host_memory = kind() == BackendKind::host || leased_.mapping->on_host ? 1 : 0;
  return info;
}

void HeldLease::let_wait(void* stream) const {
  const Provider& provider = ipc_provider(kind());
  provider.check_stream(stream, leased_.mapping->device);
  if (connection_) {
    connection_->wait_for_exporter(token_, provider, stream, leased_.mapping->device);
  } else {
    exporter_.wait_for_export(token_, stream, leased_.mapping->device);
  }
}

void HeldLease::record_use(void* stream) {
  if (ipc_provider(kind()).record_use(stream, leased_.mapping->device)) {
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

  const int device = leased_.mapping->device;
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
