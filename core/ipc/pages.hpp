// SPDX-License-Identifier: Apache-2.0
//
// Memory that an exporter shares with those who import from it, beside the memory that they import.
//
// The lease page belongs to one exporter and one consumer. The consumer writes into its ring what it claims and releases; the
// exporter takes it from there when it wants to know, and need only look at a page whose count has moved. The board belongs to
// one exporter and all its consumers. It says for each region of a block which tokens are void.
//
// So a consumer that has a block mapped can take a lease on a piece of it without asking: it writes the claim, then looks at the
// board. The exporter that makes tokens void writes the board, then looks at the rings. Both have full barriers in between, so
// either the consumer sees that its token is void, and gives up its claim, or the exporter sees the claim.
//
// Every word has one writer. What the other side wrote is copied before it is looked at, and checked.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/backend/token.hpp"

namespace symm::ipc {

enum class EventKind : uint32_t {
  claim = 1,    // a lease, taken without asking
  release = 2,  // over when `position` is passed, on this page's words
  cancel = 3,   // one that was claimed or requested will not be used, whether it was granted or not
};

struct Event {
  EventKind kind{};
  uint32_t word = kNoWord;
  uint64_t value = 0;
  uint64_t lease = 0;
  uint64_t block = 0;
  uint64_t number = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t spare = 0;
};
static_assert(sizeof(Event) == 64);

inline constexpr uint64_t kEvents = 256;
inline constexpr uint32_t kRegions =
    64;  // into which the board divides a block, so that pieces of it are withdrawn by themselves
inline constexpr uint64_t kVoid = UINT64_MAX;  // on the board: no token is valid

struct alignas(4096) LeaseRing {
  alignas(64) std::atomic<uint64_t> written;                // by the consumer: events
  std::atomic<uint32_t> crowded;                            // by the consumer: it has more, for which there was no room
  alignas(64) std::atomic<uint64_t> taken;                  // by the exporter
  std::atomic<uint32_t> waiting;                            // by the exporter: it wants to hear of each release
  alignas(64) Event ring[kEvents];                          // by the consumer
  alignas(4096) std::atomic<uint64_t> words[kStreamWords];  // by the consumer's streams
};

struct alignas(4096) ValidityBoard {
  std::atomic<uint64_t> newest;  // by the exporter: number of the last token
  alignas(
      64) std::atomic<uint64_t> valid_from[kSlots][kRegions];  // by the exporter: lowest number of a valid token of the region
  alignas(4096) std::atomic<uint64_t> words[kStreamWords];     // by the exporter's streams; by its consumers once it is dead
};

// The regions of a block that a piece touches: first, last.
struct Regions {
  uint64_t first, last;
};
inline Regions regions_of(uint64_t block_bytes, uint64_t offset, uint64_t bytes) noexcept {
  const uint64_t region = (block_bytes + kRegions - 1) / kRegions;
  return {offset / region, (offset + bytes - 1) / region};
}

}  // namespace symm::ipc
