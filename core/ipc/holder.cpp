// SPDX-License-Identifier: Apache-2.0
#include "core/ipc/holder.hpp"
#include "core/backends.hpp"

namespace symm::ipc {
namespace {

bool passed(Position position, std::span<const std::atomic<uint64_t>> words) {
  return position.word >= words.size() || words[position.word].load(std::memory_order_acquire) >= position.value;
}

}  // namespace

void Holder::grant(Exports& exports, uint64_t lease, const Piece& piece, uint64_t number) {
  leases_.emplace(lease, Lease{piece, Clock::now()});
  exports.leased(piece, number);
}

Holder::End Holder::release(Exports& exports, uint64_t lease, Position position, std::span<const std::atomic<uint64_t>> words) {
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return End::unknown;
  if (!passed(position, words)) {
    draining_.push_back({lease, position});
    return End::later;
  }
  exports.ended(found->second.piece);
  leases_.erase(found);
  return End::now;
}

uint64_t Holder::drain(Exports& exports, std::span<const std::atomic<uint64_t>> words) {
  return std::erase_if(draining_, [&](const Draining& one) {
    if (!passed(one.position, words)) return false;
    const auto found = leases_.find(one.lease);
    if (found != leases_.end()) {
      exports.ended(found->second.piece);
      leases_.erase(found);
    }
    return true;
  });
}

uint64_t Holder::write_off(Exports& exports, bool surely) {
  const uint64_t count = leases_.size();
  for (const auto& [number, lease] : leases_) {
    const ExportedBlock* block = exports.find(lease.piece.block);
    if (!surely || (block != nullptr && ipc_provider(block->kind).outlives_its_writer())) exports.quarantine(lease.piece);
    exports.ended(lease.piece);
  }
  leases_.clear();
  draining_.clear();
  return count;
}

std::vector<uint64_t> Holder::overlapping(const Piece& piece) const {
  std::vector<uint64_t> found;
  for (const auto& [number, lease] : leases_) {
    if (lease.piece.overlaps(piece)) found.push_back(number);
  }
  return found;
}

}  // namespace symm::ipc
