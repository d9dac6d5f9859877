// What a rank leaves in its scratch before it enters a collective in pieces: a table of its pieces,
// one for each rank.
#pragma once

#include <cstddef>

#include "kernels/host/slices.hpp"
#include "kernels/pieces.hpp"

namespace symm::host {
// The head of the table; the pieces follow it.
struct PieceTable {
  // The bytes of the longest of the pieces that are staged.
  size_t longest = 0;
  // The bytes that this rank has room for, in a broadcast of bytes.
  size_t room = 0;
  // The rows in which the pieces of send lie.
  Rows rows;

  const Piece* pieces() const noexcept { return reinterpret_cast<const Piece*>(this + 1); }
  Piece* pieces() noexcept { return reinterpret_cast<Piece*>(this + 1); }

  // The table of `size` ranks, and nothing else, lies in so many bytes.
  static constexpr size_t bytes(int size) noexcept {
    return round_up(sizeof(PieceTable) + static_cast<size_t>(size) * sizeof(Piece), kLine);
  }
};
static_assert(sizeof(PieceTable) % alignof(Piece) == 0);
}  // namespace symm::host
