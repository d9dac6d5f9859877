// How blocks share the work on a list of pieces (copy_pieces.cu): by what it costs, not by the
// number of pieces. Host and device compute with the same functions.
#pragma once

#include <cstdint>

#include "kernels/cuda/args.hpp"
#include "kernels/piece_rows.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
// A unit is what a warp copies at a time: so many bytes of a row, or some short rows.
inline constexpr uint64_t kUnitBytes = 4096;
// Costs are counted in parts of a unit. A small piece, which a part of a warp copies, costs 1.
inline constexpr uint64_t kUnitCost = 8;
inline constexpr uint64_t kSmallBytes = kUnitBytes / kUnitCost;
// Memory moves no less than this for a row.
inline constexpr uint64_t kLeastRow = 32;

// A piece as it is copied: rows that lie one behind the other are one row.
SYMM_HOST_DEVICE constexpr ListedPiece joined(const ListedPiece& piece) {
  ListedPiece made = piece;
  made.rows = symm::rows_of(piece);
  if (made.rows > 1 && symm::is_one_stretch(piece)) {
    made.bytes *= made.rows;
    made.rows = 1;
  }
  return made;
}

struct PieceUnits {
  // A unit is so many rows; 0: a row is so many units, `per_row`.
  uint64_t rows_each;
  uint64_t per_row;
  uint64_t count;
};

SYMM_HOST_DEVICE constexpr uint64_t parts_of(uint64_t whole, uint64_t part) {
  return whole / part + (whole % part != 0 ? 1 : 0);
}

// The units of a joined piece.
SYMM_HOST_DEVICE constexpr PieceUnits units_of(const ListedPiece& piece) {
  if (piece.rows == 1 || piece.bytes >= kUnitBytes) {
    const uint64_t per_row = parts_of(piece.bytes, kUnitBytes);
    return {0, per_row, per_row * piece.rows};
  }
  // Numbers of 32 bits are divided faster.
  const auto row = static_cast<uint32_t>(piece.bytes < kLeastRow ? kLeastRow : piece.bytes);
  const uint64_t each = static_cast<uint32_t>(kUnitBytes) / row;
  return {each, 0, parts_of(piece.rows, each)};
}

SYMM_HOST_DEVICE constexpr bool is_small(const ListedPiece& piece) {
  return piece.rows == 1 && piece.bytes <= kSmallBytes;
}

// What a joined piece costs.
SYMM_HOST_DEVICE constexpr uint64_t cost_of(const ListedPiece& piece) {
  if (piece.bytes == 0) return 0;
  return is_small(piece) ? 1 : kUnitCost * units_of(piece).count;
}

// The part of all the cost that block `index` of `blocks` has, of whole units.
struct CostShare {
  uint64_t begin;
  uint64_t end;
};

SYMM_HOST_DEVICE constexpr CostShare share_of(uint64_t total, uint32_t blocks, uint32_t index) {
  const uint64_t each = parts_of(parts_of(total, kUnitCost), blocks) * kUnitCost;
  const uint64_t begin = each * index < total ? each * index : total;
  return {begin, total - begin < each ? total : begin + each};
}
}  // namespace symm::cuda
