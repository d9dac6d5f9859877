// Leases as their exporter counts them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/backend/provider.hpp"
#include "core/ipc/token_pad.hpp"

namespace symm::ipc {
class Exports;
using Clock = std::chrono::steady_clock;

// The import of a piece of a block, until its release.
struct Lease {
  uint64_t block = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  Clock::time_point since{};
  std::shared_ptr<PadWriter> writer{};  // of a token with channels
  bool overlaps(const Lease& other) const noexcept {
    return block == other.block && offset < other.offset + other.bytes &&
           other.offset < offset + bytes;
  }
};

// The leases of one process, and those among them that it released on a stream that has not got
// there yet.
class Leases {
 public:
  bool has(uint64_t lease) const { return leases_.contains(lease); }
  const std::map<uint64_t, Lease>& all() const noexcept { return leases_; }
  bool on_streams() const noexcept { return !draining_.empty(); }

  void grant(Exports& exports, uint64_t number, const Lease& lease, uint64_t token);
  // Over at once, or when `words` say that the position is passed.
  enum class End { unknown, now, later };
  End release(Exports& exports, uint64_t lease, Position position,
      std::span<const std::atomic<uint64_t>> words);
  // Returns how many leases were found to be over.
  uint64_t drain(Exports& exports, std::span<const std::atomic<uint64_t>> words);
  // The holder is gone. `surely`: it can write no more. Returns the number of its leases.
  uint64_t write_off(Exports& exports, bool surely);
  std::vector<uint64_t> overlapping(const Lease& lease) const;

 private:
  struct Draining {
    uint64_t lease;
    Position position;
  };
  std::map<uint64_t, Lease> leases_;  // by number, which grows with time: the first is the oldest
  std::vector<Draining> draining_;
};
}  // namespace symm::ipc
