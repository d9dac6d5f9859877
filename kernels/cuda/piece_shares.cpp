// Adds up what the pieces of a list cost, and divides them among blocks.
#include "kernels/cuda/piece_shares.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cuda/args.hpp"
#include "kernels/cuda/piece_units.hpp"
#include "kernels/piece_list.hpp"
#include "symm/symm.h"

namespace symm::cuda {
namespace {
static_assert(sizeof(ListedPiece) == sizeof(symm_piece_t) &&
              offsetof(ListedPiece, from) == offsetof(symm_piece_t, from) &&
              offsetof(ListedPiece, to) == offsetof(symm_piece_t, to) &&
              offsetof(ListedPiece, bytes) == offsetof(symm_piece_t, bytes) &&
              offsetof(ListedPiece, rows) == offsetof(symm_piece_t, rows) &&
              offsetof(ListedPiece, from_stride) == offsetof(symm_piece_t, from_stride) &&
              offsetof(ListedPiece, to_stride) == offsetof(symm_piece_t, to_stride));

uint64_t cost_in(const PieceList& list, size_t i) {
  return cost_of(joined(std::bit_cast<ListedPiece>(list.pieces[i])));
}
}  // namespace

PieceCosts costs_of(const PieceList& list) {
  if (list.pieces == nullptr || list.page_bytes != 0) {
    const uint64_t each = cost_of(ListedPiece{0, 0, list.page_bytes, 1, 0, 0});
    return {each * list.count, each};
  }

  PieceCosts costs;
  bool differ = false;
  for (size_t i = 0; i < list.count; ++i) {
    const uint64_t cost = cost_in(list, i);
    if (i == 0) costs.each = cost;
    differ = differ || cost != costs.each;
    costs.total += cost;
  }
  if (differ) costs.each = 0;
  return costs;
}

void find_starts(std::span<PieceStart> starts, const PieceList& list, uint64_t total) {
  const auto blocks = static_cast<uint32_t>(starts.size() - 1);
  uint64_t ahead = 0;
  uint32_t block = 0;
  for (size_t i = 0; i < list.count; ++i) {
    const uint64_t behind = ahead + cost_in(list, i);
    for (; block < blocks && share_of(total, blocks, block).begin < behind; ++block) {
      starts[block] = {i, ahead};
    }
    ahead = behind;
  }
  // Blocks without a share, too.
  for (; block <= blocks; ++block) {
    starts[block] = {list.count - 1, ahead};
  }
}
}  // namespace symm::cuda
