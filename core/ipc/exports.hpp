// SPDX-License-Identifier: Apache-2.0
//
// The exporter's book: which blocks of this process can be imported, by which tokens, and how many leases there are on each. No
// sockets and no locks; the exporter holds its own.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/backend/provider.hpp"
#include "core/ipc/pages.hpp"

namespace symm::ipc {

using Clock = std::chrono::steady_clock;

struct Piece {
  uint64_t block = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool overlaps(const Piece& other) const noexcept {
    return block == other.block && offset < other.offset + other.bytes && other.offset < offset + bytes;
  }
};

// A consumer's claim on a piece.
struct Lease {
  Piece piece;
  Clock::time_point since;
};

// Which pieces of a block have had their tokens ended, and up to which number.
class Withdrawn {
 public:
  void add(uint64_t offset, uint64_t bytes, uint64_t before);
  bool covers(const Piece& piece, uint64_t number) const;
  void clear() { ranges_.clear(); }
  size_t size() const { return ranges_.size(); }

 private:
  struct Range {
    uint64_t end;
    uint64_t before;  // tokens of lower numbers are void
  };
  std::map<uint64_t, Range> ranges_;  // by start; they do not overlap
};

struct ExportedBlock {
  struct Hold {
    Deadline until;
    uint64_t imports = 0;  // still to come; 0: not counted
  };
  uint64_t id = 0;
  Id secret{};
  BackendKind kind{};
  int device = 0;
  Id gpu{};
  std::shared_ptr<Block> block;  // null once it is released and held for no token
  uint64_t bytes = 0;
  uint64_t mapped_bytes = 0;
  bool adopted = false;
  uint32_t slot = kNoSlot;
  uint64_t valid_from = 0;  // tokens of lower numbers are void, whatever the piece
  Withdrawn withdrawn;
  std::map<uint64_t, Hold> holds;  // by token number
  size_t leases = 0;
  bool released = false;
  bool quarantined = false;
};

struct Freed {
  uint64_t blocks = 0;
  uint64_t bytes = 0;
};

class Exports {
 public:
  explicit Exports(ValidityBoard& board) : board_(board) {}

  ExportedBlock& add(std::shared_ptr<Block> block, const Provider& provider, int device);
  ExportedBlock* find(uint64_t id) noexcept;
  // The number of a new token. With `hold_ms` the block is kept for it.
  uint64_t number(ExportedBlock& block, uint64_t hold_ms, uint64_t hold_imports);
  // Throws what an importer shall be told if the token is not valid now.
  ExportedBlock& require_valid(const Token& token);

  void leased(const Piece& piece, uint64_t number);
  void ended(const Piece& piece) noexcept;
  void quarantine(const Piece& piece) noexcept;

  // All tokens for this piece are void from now on. The caller then looks at the rings.
  void withdraw(ExportedBlock& block, uint64_t offset, uint64_t bytes);
  void release(ExportedBlock& block);
  // Forget holds that have run out and blocks that nobody holds. What is to be given back is put in `garbage`, for the caller to
  // drop without a lock; `retired` gets the blocks that can no longer be imported.
  Freed settle(std::vector<std::shared_ptr<Block>>& garbage, std::vector<uint64_t>& retired);

  const std::unordered_map<uint64_t, ExportedBlock>& blocks() const noexcept { return blocks_; }
  size_t limbo_blocks() const noexcept { return unsettled_.size(); }
  void each_in_limbo(const std::function<void(const ExportedBlock&)>& visit) const;

 private:
  void publish(const ExportedBlock& block, Regions regions, uint64_t valid_from) noexcept;
  uint64_t next_number() noexcept;

  ValidityBoard& board_;
  uint64_t last_block_ = 0;
  uint64_t last_number_ = 1;
  std::vector<uint32_t> free_slots_;
  uint32_t used_slots_ = 0;
  std::unordered_map<uint64_t, ExportedBlock> blocks_;
  std::map<uint64_t, bool> unsettled_;  // blocks that were released; true: its consumers were told
};

}  // namespace symm::ipc
