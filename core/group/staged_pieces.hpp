// Which pieces that a rank puts to a neighbour in every round go packed, and how.
//
// A row of a few bytes that lies alone in its cache line takes that line away from the neighbour's
// processor, which has to fetch it again to read it. Packed behind each other into a stage, a part
// of the neighbour's memory, such rows pass as whole lines. The neighbour unpacks them in its own
// cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "symm/symm.h"

namespace symm {
// Takes the pieces out of a list that are better staged. The others stay in their order.
std::vector<symm_piece_t> take_small(std::vector<symm_piece_t>& pieces);

// Fewer rows than these are not worth a stage.
inline constexpr uint64_t kFewestStagedRows = 16;

// The rows and the bytes of a list that was checked.
uint64_t rows_in(const std::vector<symm_piece_t>& pieces);
uint64_t bytes_in(const std::vector<symm_piece_t>& pieces);

// What goes packed from one rank to another.
class StagedPieces {
 public:
  // Adds pieces that count from `offset` in the neighbour's block. All go to one memory.
  void add(const void* source, size_t offset, const std::vector<symm_piece_t>& pieces);
  // Gives the pieces their places in the stage, when all are added.
  void lay_out();

  bool empty() const noexcept { return packing_.empty(); }
  size_t bytes() const noexcept { return bytes_; }
  // From where `packing` reads.
  const void* source() const noexcept { return source_; }
  // From the source to the stage, and from there to the neighbour's block.
  const std::vector<symm_piece_t>& packing() const noexcept { return packing_; }
  const std::vector<symm_piece_t>& unpacking() const noexcept { return unpacking_; }

 private:
  const std::byte* source_ = nullptr;
  size_t bytes_ = 0;
  std::vector<symm_piece_t> packing_;
  std::vector<symm_piece_t> unpacking_;
};
}  // namespace symm
