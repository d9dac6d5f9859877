// How the blocks of a launch share what an exchange of neighbours puts in a round (exchange.cu).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/args.hpp"

namespace symm::cuda {
struct ExchangePlan {
  std::vector<ExchangeSegment> segments;
  // The first one of each block that has some, and the number of all.
  std::vector<uint32_t> first_segment;

  uint32_t blocks() const noexcept { return static_cast<uint32_t>(first_segment.size() - 1); }
};

// The units (piece_units.hpp) of joined pieces: `counts` of them go to each neighbour, those for
// the first one first.
uint64_t units_of(std::span<const ListedPiece> pieces, std::span<const size_t> counts);

// Divides them among at most `blocks` blocks. A neighbour without pieces has a segment, too, whose
// block tells it that all is there.
ExchangePlan divide(
    std::span<const ListedPiece> pieces, std::span<const size_t> counts, uint32_t blocks);
}  // namespace symm::cuda
