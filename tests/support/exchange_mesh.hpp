// Meshes of neighbours drawn at random, and what is in each block after a round: byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/support/group.hpp"
#include "tests/support/piece_lists.hpp"

namespace support {
// Which ranks are neighbours, and which pieces go from each to each. Equal on ranks that draw with
// the same seed.
class ExchangeMesh {
 public:
  // The part of each block in which the pieces of one rank go.
  static constexpr size_t kArea = 2048;

  ExchangeMesh(int size, uint64_t seed) : size_(static_cast<size_t>(size)) {
    std::mt19937_64 random(seed);
    PieceLists lists(random(), kArea);
    const size_t one_in = 1 + random() % 3;
    lists_.resize(size_ * size_);
    are_neighbors_.resize(size_ * size_);

    for (size_t a = 0; a < size_; ++a) {
      for (size_t b = a; b < size_; ++b) {
        if (random() % one_in != 0) continue;
        are_neighbors_[at(a, b)] = are_neighbors_[at(b, a)] = true;
        for (const size_t pair : {at(a, b), at(b, a)}) {
          lists_[pair] = random() % 2 == 0 ? lists.draw() : lists.draw_apart();
        }
      }
    }
  }

  size_t block_bytes() const { return size_ * kArea; }

  // What rank `rank` tells the library. Some neighbours have their pieces in two structs.
  std::vector<symm_neighbor_t> neighbors_of(
      int rank, const symm::Memory& memory, const std::vector<std::byte>& source) const {
    const auto me = static_cast<size_t>(rank);
    std::vector<symm_neighbor_t> neighbors;
    for (size_t peer = 0; peer < size_; ++peer) {
      if (!are_neighbors_[at(me, peer)]) continue;
      const symm::Span<const symm_piece_t> pieces(lists_[at(me, peer)]);
      const size_t half = (me + peer) % 2 == 0 ? pieces.size() / 2 : 0;
      const size_t expected = bytes_of(lists_[at(peer, me)]);
      const auto add = [&](size_t from, size_t count, size_t bytes) {
        neighbors.push_back(symm::neighbor(static_cast<int32_t>(peer), memory, me * kArea, source,
            symm::Span<const symm_piece_t>(pieces.data() + from, count), bytes));
      };
      if (half != 0) add(0, half, expected / 2);
      add(half, pieces.size() - half, expected - (half != 0 ? expected / 2 : 0));
    }
    return neighbors;
  }

  // What rank `rank` has as its source in a round.
  static std::vector<std::byte> source_of(size_t rank, uint64_t round) {
    return distinct_bytes(kArea, rank * 1'000'003 + round);
  }

  // Does a round to what is in the block of rank `rank`.
  void do_round(int rank, uint64_t round, std::vector<std::byte>& block) const {
    const auto me = static_cast<size_t>(rank);
    for (size_t peer = 0; peer < size_; ++peer) {
      if (!are_neighbors_[at(peer, me)]) continue;
      copy_as_said(
          block.data() + peer * kArea, source_of(peer, round).data(), lists_[at(peer, me)]);
    }
  }

 private:
  size_t at(size_t from, size_t to) const { return from * size_ + to; }

  static size_t bytes_of(const std::vector<symm_piece_t>& pieces) {
    size_t bytes = 0;
    for (const symm_piece_t& piece : pieces) {
      bytes += std::max<uint64_t>(piece.rows, 1) * piece.bytes;
    }
    return bytes;
  }

  size_t size_;
  std::vector<std::vector<symm_piece_t>> lists_;
  std::vector<bool> are_neighbors_;
};
}  // namespace support
