// Stands in for the kernels' copying.cuh when they are compiled for the fake driver: what a block
// has of a line, copied by memcpy.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/args.hpp"
#include "kernels/cuda/piece_units.hpp"
#include "tests/fake_cuda/host_form/kernels/cuda/memory.cuh"

namespace symm::cuda {
struct Tile {};
struct BulkMover {
  explicit BulkMover(bool) {}
};
struct PieceBases {
  uint64_t to;
  uint64_t from;
};
struct Walk {
  CostShare share;
  uint64_t piece;
  uint64_t end;
  uint64_t ahead;
};

inline void copy_bytes(
    const PieceBases& bases, const ListedPiece& piece, uint64_t row, uint64_t at, uint64_t bytes) {
  std::memcpy(reinterpret_cast<void*>(bases.to + piece.to + row * piece.to_stride + at),  // NOLINT
      reinterpret_cast<const void*>(                                                      // NOLINT
          bases.from + piece.from + row * piece.from_stride + at),
      bytes);
}

inline void copy_unit(const PieceBases& bases, const ListedPiece& piece, uint64_t unit) {
  const PieceUnits units = units_of(piece);
  if (units.rows_each == 0) {
    const uint64_t at = unit % units.per_row * kUnitBytes;
    const uint64_t bytes = piece.bytes - at < kUnitBytes ? piece.bytes - at : kUnitBytes;
    return copy_bytes(bases, piece, unit / units.per_row, at, bytes);
  }
  const uint64_t first = unit * units.rows_each;
  for (uint64_t row = first; row < first + units.rows_each && row < piece.rows; ++row) {
    copy_bytes(bases, piece, row, 0, piece.bytes);
  }
}

// A small piece is in the share in which it begins, a unit in that of the point in it.
template <class Load>
void copy_walk(const PieceBases& bases, uint64_t, Walk walk, Tile&, BulkMover&, const Load& load) {
  const auto is_mine = [&](uint64_t at) { return at >= walk.share.begin && at < walk.share.end; };
  for (; walk.piece < walk.end; ++walk.piece) {
    ListedPiece piece{};
    load(walk.piece, piece);
    if (is_small(piece)) {
      if (is_mine(walk.ahead)) copy_bytes(bases, piece, 0, 0, piece.bytes);
    } else {
      for (uint64_t unit = 0; unit < units_of(piece).count; ++unit) {
        const uint64_t point = parts_of(walk.ahead + unit * kUnitCost, kUnitCost) * kUnitCost;
        if (is_mine(point)) copy_unit(bases, piece, unit);
      }
    }
    walk.ahead += cost_of(piece);
  }
}
}  // namespace symm::cuda
