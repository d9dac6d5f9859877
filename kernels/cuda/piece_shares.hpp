// What the host adds up of a list of pieces, so that no block of the kernel has to
// (copy_pieces.cu).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/args.hpp"
#include "kernels/piece_list.hpp"

namespace symm::cuda {
struct PieceCosts {
  // What all pieces cost.
  uint64_t total = 0;
  // What each of them costs; 0: they differ.
  uint64_t each = 0;
};

// The list may be on the device if it is one of pages, of which the size tells the cost.
PieceCosts costs_of(const PieceList& list);

// Finds where each block begins with a list whose pieces differ, and, behind these, the last piece:
// there is one start more than blocks. The list has a piece.
void find_starts(std::span<PieceStart> starts, const PieceList& list, uint64_t total);
}  // namespace symm::cuda
