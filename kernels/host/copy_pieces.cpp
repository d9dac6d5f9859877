// Rows of a few bytes take as long as the call of a function that would copy them, so rows of the
// lengths that elements have are loads and stores of their own.
#include "kernels/host/copy_pieces.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/prefetch.hpp"
#include "kernels/host/slices.hpp"
#include "kernels/piece_list.hpp"
#include "kernels/piece_rows.hpp"
#include "symm/symm.h"

namespace symm::host {
namespace {
template <class CopyRow>
void each_row(
    std::byte* to, const std::byte* from, const symm_piece_t& piece, const CopyRow& copy_row) {
  copy_row(to, from);
  // Strides have no meaning behind the last row.
  for (uint64_t row = 1; row < rows_of(piece); ++row) {
    to += piece.to_stride;
    from += piece.from_stride;
    copy_row(to, from);
  }
}

// Stores wait for their lines one after the other, and a processor has only some of them under way.
// So where each row has lines of its own, which another processor may have, they are fetched so
// many rows before.
constexpr uint64_t kRowsAhead = 8;

template <size_t kBytes>
void copy_short(std::byte* to, const std::byte* from, const symm_piece_t& piece) {
  const auto copy_row = [](std::byte* row_to, const std::byte* row_from) {
    std::memcpy(row_to, row_from, kBytes);
  };
  const uint64_t rows = rows_of(piece);
  if (rows <= kRowsAhead || piece.to_stride < kLine) return each_row(to, from, piece, copy_row);

  symm_piece_t part = piece;
  part.rows = rows - kRowsAhead;
  const uint64_t ahead = kRowsAhead * piece.to_stride;
  each_row(to, from, part, [&](std::byte* row_to, const std::byte* row_from) {
    prefetch_for_write(row_to + ahead);
    copy_row(row_to, row_from);
  });
  const uint64_t done = part.rows;
  part.rows = kRowsAhead;
  each_row(to + done * piece.to_stride, from + done * piece.from_stride, part, copy_row);
}

void copy_piece(std::byte* to, const std::byte* from, const symm_piece_t& piece, bool nontemporal) {
  const bool is_one = rows_of(piece) > 1 && is_one_stretch(piece);
  if (is_one) return copy(to, from, piece.bytes * rows_of(piece), nontemporal);

  switch (piece.bytes) {
    case 1: return copy_short<1>(to, from, piece);
    case 2: return copy_short<2>(to, from, piece);
    case 4: return copy_short<4>(to, from, piece);
    case 8: return copy_short<8>(to, from, piece);
    case 12: return copy_short<12>(to, from, piece);
    case 16: return copy_short<16>(to, from, piece);
    case 24: return copy_short<24>(to, from, piece);
    case 32: return copy_short<32>(to, from, piece);
    case 48: return copy_short<48>(to, from, piece);
    case 64: return copy_short<64>(to, from, piece);
    default:
      each_row(to, from, piece, [&](std::byte* row_to, const std::byte* row_from) {
        copy(row_to, row_from, piece.bytes, nontemporal);
      });
  }
}
}  // namespace

void copy_pieces(
    std::byte* to, const std::byte* from, const PieceList& list, bool nontemporal) noexcept {
  for (size_t i = 0; i < list.count; ++i) {
    const symm_piece_t piece = list[i];
    // A piece of no bytes may begin anywhere.
    if (piece.bytes != 0) copy_piece(to + piece.to, from + piece.from, piece, nontemporal);
  }
}
}  // namespace symm::host
