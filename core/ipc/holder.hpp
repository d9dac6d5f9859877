// SPDX-License-Identifier: Apache-2.0
//
// A process that holds leases on memory of this one: its leases, and those of them that it has released on a stream which is not
// there yet.
#pragma once

#include <atomic>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "core/ipc/exports.hpp"

namespace symm::ipc {

class Holder {
 public:
  bool has(uint64_t lease) const { return leases_.contains(lease); }
  const std::map<uint64_t, Lease>& leases() const noexcept { return leases_; }
  bool on_streams() const noexcept { return !draining_.empty(); }

  void grant(Exports& exports, uint64_t lease, const Piece& piece, uint64_t number);
  // Over at once, or when `words` say that the position is passed.
  enum class End {
    unknown,
    now,
    later
  };
  End release(Exports& exports, uint64_t lease, Position position, std::span<const std::atomic<uint64_t>> words);
  // Returns how many leases were found to be over.
  uint64_t drain(Exports& exports, std::span<const std::atomic<uint64_t>> words);
  // The holder is gone. `surely` if it can write no more. Returns how many leases it had.
  uint64_t write_off(Exports& exports, bool surely);
  std::vector<uint64_t> overlapping(const Piece& piece) const;

 private:
  struct Draining {
    uint64_t lease;
    Position position;
  };
  std::map<uint64_t, Lease> leases_;  // by number, which grows with time: the first is the oldest
  std::vector<Draining> draining_;
};

}  // namespace symm::ipc
