// SPDX-License-Identifier: Apache-2.0
#include "core/ipc/held_lease.hpp"

#include "core/backends.hpp"
#include "core/base/log.hpp"

namespace symm::ipc {

HeldLease::~HeldLease() {
  if (!connection_) {
    leased_.mapping.reset();
    if (!is_never_over_) exporter_.release(leased_.lease, over_);
    return;
  }
  const std::byte* const data = leased_.mapping->block->data();
  // In case that it was exported from here, its owner being dead.
  if (connection_->release(leased_, token_, over_)) exporter_.released(data);
}

symm_ipc_info_t HeldLease::info() const noexcept {
  symm_ipc_info_t info{};
  info.backend = static_cast<int32_t>(token_.backend);
  info.device = leased_.mapping->device;
  info.bytes = token_.bytes;
  info.offset = token_.offset;
  info.block_bytes = leased_.mapping->block->size();
  info.exporter_pid = token_.pid;
  info.exporter_alive = !connection_ || connection_->alive() ? 1 : 0;
  return info;
}

void HeldLease::release_after(void* stream) noexcept {
  if (kind() == BackendKind::host) return;
  const int device = leased_.mapping->device;
  try {
    over_ = connection_ ? connection_->mark(ipc_provider(kind()), stream, device) : exporter_.mark(stream, device);
  } catch (const std::exception& error) {
    log::write(log::Level::warning, "symm_ipc_release: the lease ends with this process, because its stream cannot be asked: %s",
               error.what());
    over_ = {0, kPassed * 2 - 1};
    is_never_over_ = true;
  }
}

}  // namespace symm::ipc
