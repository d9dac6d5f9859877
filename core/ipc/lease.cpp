#include "core/ipc/lease.hpp"
#include "core/backends.hpp"
#include "core/base/reserve.hpp"
#include "core/ipc/export.hpp"

namespace symm::ipc {
void Leases::grant(Exports& exports, uint64_t number, const Lease& lease, uint64_t token) {
  leases_.emplace(number, lease).first->second.since = Clock::now();
  exports.leased(lease, token);
}

Leases::End Leases::release(Exports& exports, uint64_t lease, Position position, std::span<const std::atomic<uint64_t>> words) {
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return End::unknown;
  if (!is_passed(position, words)) {
    draining_.push_back({lease, position});
    return End::later;
  }
  exports.ended(found->second);
  leases_.erase(found);
  return End::now;
}

uint64_t Leases::drain(Exports& exports, std::span<const std::atomic<uint64_t>> words) {
  return std::erase_if(draining_, [&](const Draining& one) {
    if (!is_passed(one.position, words)) return false;
    const auto found = leases_.find(one.lease);
    if (found != leases_.end()) {
      exports.ended(found->second);
      leases_.erase(found);
    }
    return true;
  });
}

uint64_t Leases::write_off(Exports& exports, bool surely) {
  const uint64_t count = leases_.size();
  for (const auto& [number, lease] : leases_) {
    const Export* of = exports.find(lease.block);
    if (!surely || (of != nullptr && ipc_provider(of->kind).outlives_its_writer())) exports.quarantine(lease);
    exports.ended(lease);
  }
  leases_.clear();
  draining_.clear();
  return count;
}

std::vector<uint64_t> Leases::overlapping(const Lease& lease) const {
  std::vector<uint64_t> found;
  for (const auto& [number, other] : leases_)
    if (other.overlaps(lease)) found.push_back(number);
  return found;
}

HeldLease::~HeldLease() {
  if (is_of_nothing()) return;
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
  info.block_bytes = is_of_nothing() ? 0 : leased_.mapping->block->size();
  info.exporter_pid = token_.pid;
  info.exporter_alive = !connection_ || connection_->alive() ? 1 : 0;
  info.host_memory = kind() == BackendKind::host || leased_.mapping->on_host ? 1 : 0;
  return info;
}

void HeldLease::let_wait(void* stream) const {
  const Provider& memory = ipc_provider(kind());
  memory.check_stream(stream, leased_.mapping->device);
  if (connection_) connection_->wait_for_exporter(token_, memory, stream, leased_.mapping->device);
  else exporter_.wait_for_export(token_, stream, leased_.mapping->device);
}

void HeldLease::record_use(void* stream) {
  (ipc_provider(kind()).record_use(stream, leased_.mapping->device) ? has_uses_ : has_unknown_uses_) = true;
}

void HeldLease::note_release(void* stream) noexcept {
  if (kind() == BackendKind::host || is_of_nothing()) return;
  try {
    if (stream != kAllStreams) return record_use(stream);
  } catch (const std::exception&) {
    // Then it is one of all streams.
  }
  has_unknown_uses_ = true;
}

void HeldLease::release_after(void* stream) noexcept {
  if (kind() == BackendKind::host || is_of_nothing()) return;
  const int device = leased_.mapping->device;
  try {
    const Provider& memory = ipc_provider(kind());
    const bool everything = has_unknown_uses_ || stream == kAllStreams;
    with_reserve([&] {
      void* const last = everything  ? memory.stream_after(kAllStreams, device)
                         : has_uses_ ? memory.stream_after(stream, device)
                                     : stream;
      if (everything && last == nullptr) return memory.keep_until_done(shared_from_this(), device);
      over_ = connection_ ? connection_->mark(memory, last, device) : exporter_.mark(last, device);
    });
  } catch (const std::exception& error) {
    log::write(log::Level::warning, "symm_ipc_release: the lease ends with this process, because its stream cannot be asked: %s",
        error.what());
    over_ = {0, kPassed * 2 - 1};
    is_never_over_ = true;
  }
}
}  // namespace symm::ipc
