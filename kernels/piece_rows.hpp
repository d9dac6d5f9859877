// The rows of one piece, in words that host and device both compile. `Piece` is symm_piece_t, or
// the struct of the same bytes that kernels read.
#pragma once

#include <cstdint>

#include "kernels/types.hpp"

namespace symm {
template <class Piece>
SYMM_HOST_DEVICE constexpr uint64_t rows_of(const Piece& piece) {
  return piece.rows == 0 ? 1 : piece.rows;
}

// Whether the rows of a piece that has several lie one behind the other on both sides.
template <class Piece>
SYMM_HOST_DEVICE constexpr bool is_one_stretch(const Piece& piece) {
  return piece.from_stride == piece.bytes && piece.to_stride == piece.bytes;
}

// Sums and products that do not fit are the largest number, to which no memory reaches.
inline constexpr uint64_t kBeyondMemory = ~uint64_t{0};

SYMM_HOST_DEVICE constexpr uint64_t bounded_sum(uint64_t a, uint64_t b) {
  return a > kBeyondMemory - b ? kBeyondMemory : a + b;
}

SYMM_HOST_DEVICE constexpr uint64_t bounded_product(uint64_t a, uint64_t b) {
  // A division takes longer than all else here.
  if ((a | b) >> 32 == 0) return a * b;
  return a != 0 && b > kBeyondMemory / a ? kBeyondMemory : a * b;
}

// One side of a piece: where its rows begin.
struct RowPlaces {
  uint64_t at;
  uint64_t stride;
};

template <class Piece>
SYMM_HOST_DEVICE constexpr RowPlaces read_of(const Piece& piece) {
  return {piece.from, piece.from_stride};
}

template <class Piece>
SYMM_HOST_DEVICE constexpr RowPlaces written_of(const Piece& piece) {
  return {piece.to, piece.to_stride};
}

// The bytes from the beginning of the first row to the end of the last one.
template <class Piece>
SYMM_HOST_DEVICE constexpr uint64_t reach_of(const Piece& piece, const RowPlaces& places) {
  return bounded_sum(bounded_product(rows_of(piece) - 1, places.stride), piece.bytes);
}

// Whether all rows of a piece lie within the first `bytes` bytes of one of its sides.
template <class Piece>
SYMM_HOST_DEVICE constexpr bool lies_within(
    const Piece& piece, const RowPlaces& places, uint64_t bytes) {
  const uint64_t reach = reach_of(piece, places);
  return reach != kBeyondMemory && places.at <= bytes && reach <= bytes - places.at;
}

// Whether rows of a piece overlap where they go.
template <class Piece>
SYMM_HOST_DEVICE constexpr bool overlaps_itself(const Piece& piece) {
  return rows_of(piece) > 1 && piece.to_stride < piece.bytes;
}
}  // namespace symm
