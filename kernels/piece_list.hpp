// What one call copies between two places: the pieces of a list, which lie in rows, or pages by
// their numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/piece_rows.hpp"
#include "symm/symm.h"

namespace symm {
struct PieceList {
  // Null: they are pages.
  const symm_piece_t* pieces = nullptr;
  size_t count = 0;
  size_t page_bytes = 0;
  // Null: the numbers count up from 0.
  const uint64_t* from_table = nullptr;
  const uint64_t* to_table = nullptr;
  // The list is in memory of the device, which reads it when the copy runs; there is the number of
  // pieces, too, `count` at most, if `count_at` is not null.
  bool on_device = false;
  const uint64_t* count_at = nullptr;

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
