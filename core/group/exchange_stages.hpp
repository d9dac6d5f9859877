// The stages of an exchange: where the small pieces of its neighbours go packed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/deadline.hpp"
#include "core/group/memory.hpp"
#include "core/group/staged_pieces.hpp"
#include "symm/symm.h"

namespace symm {
// What a rank tells a neighbour about what it is to unpack.
struct StageRow {
  uint64_t bytes;   // 0: nothing goes by a stage
  uint64_t pieces;  // their number
  uint64_t memory;  // the number of the memory that they go to
};

// What goes packed between this rank and a neighbour, both ways.
struct StagedPair {
  int rank = 0;

  // To the neighbour. Empty if nothing goes by a stage, or the neighbour has no such memory now.
  StagedPieces sent;
  uint64_t memory = 0;
  size_t sent_at = 0;  // in the neighbour's stages

  // From the neighbour.
  StageRow arriving{};
  std::shared_ptr<const MemoryView> to;  // null: nothing comes by a stage
  size_t arriving_at = 0;                // in the stages of this rank
  std::vector<symm_piece_t> unpacking;

  StageRow row() const noexcept { return {sent.bytes(), sent.packing().size(), memory}; }
};

// The bytes of stages that a rank has for what comes from these neighbours.
uint64_t stage_bytes(std::span<StagedPair* const> pairs);

class ExchangeStages {
 public:
  // [collective] Makes stages of `bytes` bytes on each rank, the most that any one needs, and gives
  // each neighbour the list by which it unpacks. Ranks tell each other by the signals of `channel`
  // of `words`, from `told` on, and by 8 bytes for each rank from `places_at` on.
  struct Words {
    const std::shared_ptr<Memory>& memory;
    int channel;
    uint64_t told;
    size_t places_at;
  };
  ExchangeStages(const Words& words, uint64_t tag, uint64_t bytes,
      std::span<StagedPair* const> pairs, Deadline deadline);

  // Packs what goes to a neighbour into its stage.
  void pack(const StagedPair& pair) const;
  // Unpacks what has come from a neighbour.
  void unpack(const StagedPair& pair) const;

 private:
  class Making;

  std::shared_ptr<Memory> stages_;
};
}  // namespace symm
