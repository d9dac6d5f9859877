// The validity board belongs to one exporter and all its importers. It says for each
// region of a block which tokens are void. lease_ring.hpp says how the board is used
// together with the lease ring.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "core/backend/provider.hpp"
#include "core/backend/segment.hpp"
#include "core/ipc/token.hpp"

namespace symm::ipc {
inline constexpr uint32_t kRegions =
    64;  // into which the board divides a block, so that pieces of it are withdrawn by themselves
inline constexpr uint64_t kVoid = UINT64_MAX;  // on the board: no token is valid

// The first and the last region of a block that a piece touches.
struct Regions {
  uint64_t first;
  uint64_t last;
};
inline Regions regions_of(uint64_t block_bytes, uint64_t offset, uint64_t bytes) noexcept {
  const uint64_t region = (block_bytes + kRegions - 1) / kRegions;
  return {offset / region, (offset + bytes - 1) / region};
}

struct alignas(4096) ValidityBoard {
  std::atomic<uint64_t> newest;  // by the exporter: number of the last token
  alignas(
      // Written by the exporter: the lowest number of a valid token of the region.
      64) std::atomic<uint64_t> valid_from[kSlots][kRegions];
  // Written by the exporter's streams, and by its importers once it is dead.
  alignas(4096) std::atomic<uint64_t> words[kStreamWords];

  static ValidityBoard& in(const host::Segment& segment) {
    return *reinterpret_cast<ValidityBoard*>(segment.data());
  }

  void publish(uint32_t slot, Regions regions, uint64_t from) noexcept {
    if (slot == kNoSlot) return;
    for (uint64_t i = regions.first; i <= regions.last; ++i) {
      valid_from[slot][i].store(from, std::memory_order_seq_cst);
    }
  }
  // Whether a token that has a slot is still valid.
  bool is_valid(const Token& token, uint64_t block_bytes) const noexcept {
    const Regions regions = regions_of(block_bytes, token.offset, token.bytes);
    for (uint64_t i = regions.first; i <= regions.last; ++i) {
      const uint64_t from = valid_from[token.slot][i].load(std::memory_order_seq_cst);
      if (from == kVoid || token.number < from) return false;
    }
    return token.number <= newest.load(std::memory_order_acquire);
  }
};

// Whether `position` is passed, on these words.
inline bool is_passed(Position position, std::span<const std::atomic<uint64_t>> words) noexcept {
  return position.word >= words.size() ||
         words[position.word].load(std::memory_order_acquire) >= position.value;
}
}  // namespace symm::ipc
