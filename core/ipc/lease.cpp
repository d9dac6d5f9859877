// Counts the leases of one importer in the exporter's book, and those that end when a stream
// gets there.
#include "core/ipc/lease.hpp"

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "core/backend/provider.hpp"
#include "core/backends.hpp"
#include "core/ipc/export.hpp"
#include "core/ipc/validity_board.hpp"

namespace symm::ipc {
void Leases::grant(Exports& exports, uint64_t number, const Lease& lease, uint64_t token) {
  leases_.emplace(number, lease).first->second.since = Clock::now();
  exports.leased(lease, token);
}

Leases::End Leases::release(Exports& exports, uint64_t lease, Position position,
    std::span<const std::atomic<uint64_t>> words) {
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
    const Export* exported = exports.find(lease.block);
    if (!surely || (exported != nullptr && ipc_provider(exported->kind).outlives_its_writer())) {
      exports.quarantine(lease);
    }
    if (lease.writer) lease.writer->lose(surely);
    exports.ended(lease);
  }
  leases_.clear();
  draining_.clear();
  return count;
}

std::vector<uint64_t> Leases::overlapping(const Lease& lease) const {
  std::vector<uint64_t> found;
  for (const auto& [number, other] : leases_) {
    if (other.overlaps(lease)) found.push_back(number);
  }
  return found;
}
}  // namespace symm::ipc
