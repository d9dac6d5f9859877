// What one call copies between two places: the pieces of a list, which lie in rows, or pages by
// their numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "symm/symm.h"

namespace symm {
constexpr uint64_t rows_of(const symm_piece_t& piece) { return std::max<uint64_t>(piece.rows, 1); }

// Whether the rows of a piece that has several lie one behind the other on both sides.
constexpr bool is_one_stretch(const symm_piece_t& piece) {
  return piece.from_stride == piece.bytes && piece.to_stride == piece.bytes;
}

// Sums and products that do not fit are the largest number, to which no memory reaches.
constexpr uint64_t kBeyondMemory = std::numeric_limits<uint64_t>::max();

constexpr uint64_t bounded_sum(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kBeyondMemory : sum;
}

constexpr uint64_t bounded_product(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kBeyondMemory : product;
}

// One side of a piece: where its rows begin.
struct RowPlaces {
  uint64_t at;
  uint64_t stride;
};

constexpr RowPlaces read_of(const symm_piece_t& piece) { return {piece.from, piece.from_stride}; }

constexpr RowPlaces written_of(const symm_piece_t& piece) { return {piece.to, piece.to_stride}; }

// Whether all rows of a piece lie within the first `bytes` bytes of one of its sides.
constexpr bool lies_within(const symm_piece_t& piece, const RowPlaces& places, uint64_t bytes) {
  const uint64_t to_last_row = bounded_product(rows_of(piece) - 1, places.stride);
  const uint64_t reach = bounded_sum(to_last_row, piece.bytes);
  return reach != kBeyondMemory && places.at <= bytes && reach <= bytes - places.at;
}

struct PieceList {
  // Null: they are pages.
  const symm_piece_t* pieces = nullptr;
  size_t count = 0;
  size_t page_bytes = 0;
  // Null: the numbers count up from 0.
  const uint64_t* from_table = nullptr;
  const uint64_t* to_table = nullptr;

  symm_piece_t operator[](size_t i) const {
    if (pieces != nullptr) return pieces[i];
    return {page_at(from_table, i), page_at(to_table, i), page_bytes, 1, 0, 0};
  }

 private:
  // A page that no memory reaches to begins at the largest number.
  uint64_t page_at(const uint64_t* table, size_t i) const {
    return bounded_product(table != nullptr ? table[i] : i, page_bytes);
  }
};

// Calls copy(to, from, bytes) for each stretch of bytes of a piece.
template <class Copy>
void each_stretch(const symm_piece_t& piece, const Copy& copy) {
  if (piece.bytes == 0) return;
  const uint64_t rows = rows_of(piece);
  if (rows > 1 && is_one_stretch(piece)) {
    copy(piece.to, piece.from, rows * piece.bytes);
    return;
  }
  for (uint64_t row = 0; row < rows; ++row) {
    copy(piece.to + row * piece.to_stride, piece.from + row * piece.from_stride, piece.bytes);
  }
}

template <class Copy>
void each_stretch(const PieceList& list, const Copy& copy) {
  for (size_t i = 0; i < list.count; ++i) {
    each_stretch(list[i], copy);
  }
}
}  // namespace symm
