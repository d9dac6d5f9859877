#include "core/group/staged_pieces.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/host/slices.hpp"
#include "kernels/piece_rows.hpp"
#include "symm/symm.h"

namespace symm {
namespace {
using host::kLine;

// Longer rows use most of the lines that they touch.
constexpr uint64_t kSmallRow = 32;

bool are_apart(const symm_piece_t& a, const symm_piece_t& b) {
  return std::max(a.to, b.to) - std::min(a.to, b.to) >= kLine;
}

// Whether each row of a piece lies alone in its cache lines, as far as the piece tells, and those
// before and behind it in the list.
bool is_alone(const std::vector<symm_piece_t>& pieces, size_t i) {
  const symm_piece_t& piece = pieces[i];
  if (rows_of(piece) > 1) return piece.to_stride >= kLine;
  return (i == 0 || are_apart(pieces[i - 1], piece)) &&
         (i + 1 == pieces.size() || are_apart(piece, pieces[i + 1]));
}
}  // namespace

std::vector<symm_piece_t> take_small(std::vector<symm_piece_t>& pieces) {
  std::vector<symm_piece_t> small;
  std::vector<symm_piece_t> others;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const symm_piece_t& piece = pieces[i];
    const bool is_small = piece.bytes != 0 && piece.bytes <= kSmallRow && is_alone(pieces, i);
    (is_small ? small : others).push_back(piece);
  }
  pieces = std::move(others);
  return small;
}

uint64_t rows_in(const std::vector<symm_piece_t>& pieces) {
  return std::accumulate(pieces.begin(), pieces.end(), uint64_t{0},
      [](uint64_t sum, const symm_piece_t& piece) { return sum + rows_of(piece); });
}

uint64_t bytes_in(const std::vector<symm_piece_t>& pieces) {
  return std::accumulate(pieces.begin(), pieces.end(), uint64_t{0},
      [](uint64_t sum, const symm_piece_t& piece) { return sum + rows_of(piece) * piece.bytes; });
}

void StagedPieces::add(const void* source, size_t offset, const std::vector<symm_piece_t>& pieces) {
  const auto* const from = static_cast<const std::byte*>(source);
  const auto address = reinterpret_cast<uintptr_t>(from);
  const auto lowest = reinterpret_cast<uintptr_t>(source_);
  if (packing_.empty() || address < lowest) {
    for (symm_piece_t& piece : packing_) {
      piece.from += lowest - address;
    }
    source_ = from;
  }

  const size_t base = address - reinterpret_cast<uintptr_t>(source_);
  for (symm_piece_t piece : pieces) {
    piece.from += base;
    piece.to += offset;
    packing_.push_back(piece);
  }
}

// In the order of their sources, so that two faces of a cube, whose elements share lines, are
// packed and unpacked in one pass.
void StagedPieces::lay_out() {
  std::sort(packing_.begin(), packing_.end(), [](const symm_piece_t& a, const symm_piece_t& b) {
    return std::pair(a.from, a.to) < std::pair(b.from, b.to);
  });
  unpacking_ = packing_;

  for (size_t i = 0; i < packing_.size(); ++i) {
    symm_piece_t& packed = packing_[i];
    packed.to = unpacking_[i].from = bytes_;
    packed.to_stride = unpacking_[i].from_stride = packed.bytes;
    bytes_ += rows_of(packed) * packed.bytes;
  }
}
}  // namespace symm
