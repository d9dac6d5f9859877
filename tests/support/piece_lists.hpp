// Lists of pieces drawn at random, and what a put or a get of them must do: byte by byte.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "symm/symm.h"

namespace support {
// Draws lists of pieces that lie within `bytes` bytes on both sides, and are apart where they go.
class PieceLists {
 public:
  PieceLists(uint64_t seed, size_t bytes) : random_(seed), bytes_(bytes) {}

  std::vector<symm_piece_t> draw() {
    std::vector<symm_piece_t> pieces;
    size_t free = below(64);
    for (size_t left = below(12); left > 0 && free < bytes_; --left) {
      pieces.push_back(piece_from(free));
    }
    std::shuffle(pieces.begin(), pieces.end(), random_);
    return pieces;
  }

  // Draws rows of which most have few bytes and a cache line to themselves, as those of a face
  // across the lines of a cube, and pieces of any kind between them.
  std::vector<symm_piece_t> draw_apart() {
    std::vector<symm_piece_t> pieces;
    size_t free = below(64);
    while (free < bytes_ - kApart) {
      pieces.push_back(below(8) == 0 ? piece_from(free) : piece_apart(free));
    }
    std::shuffle(pieces.begin(), pieces.end(), random_);
    return pieces;
  }

  // A table of `count` of the pages that there are, each once.
  std::vector<uint64_t> pages(size_t count, size_t there_are) {
    std::vector<uint64_t> numbers(there_are);
    for (size_t i = 0; i < there_are; ++i) {
      numbers[i] = i;
    }
    std::shuffle(numbers.begin(), numbers.end(), random_);
    numbers.resize(count);
    return numbers;
  }

  size_t below(size_t limit) { return random_() % limit; }

 private:
  static constexpr size_t kApart = 64;

  symm_piece_t piece_apart(size_t& free) {
    symm_piece_t piece{};
    piece.bytes = below(2) == 0 ? 8 : 1 + below(40);
    piece.to = free;
    piece.to_stride = kApart + below(16);
    piece.rows = std::min(below(20), (bytes_ - free - piece.bytes) / piece.to_stride + 1);
    free += std::max<uint64_t>(piece.rows, 1) * piece.to_stride;

    read_somewhere(piece);
    return piece;
  }

  // Most pieces are short, as those of halos are.
  uint64_t row_bytes() {
    constexpr uint64_t kOften[] = {0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64};
    return below(3) != 0 ? kOften[below(std::size(kOften))] : below(300);
  }

  // A piece that goes where nothing goes yet: from byte `free` on, which grows.
  symm_piece_t piece_from(size_t& free) {
    symm_piece_t piece{};
    piece.bytes = row_bytes();
    piece.rows = below(7);
    piece.to = free;
    piece.to_stride = piece.bytes + (below(2) == 0 ? 0 : below(40));
    const uint64_t last = std::max<uint64_t>(piece.rows, 1) - 1;
    const size_t reach = last * piece.to_stride + piece.bytes;
    if (reach > bytes_ - free) piece = {0, free, std::min<uint64_t>(8, bytes_ - free), 1, 0, 0};
    free += std::max<size_t>(reach, 1) + below(20);

    read_somewhere(piece);
    return piece;
  }

  // Rows may overlap where they are read.
  void read_somewhere(symm_piece_t& piece) {
    const uint64_t last = std::max<uint64_t>(piece.rows, 1) - 1;
    const size_t room = bytes_ - piece.bytes;
    if (last > 0) {
      piece.from_stride = below(2) == 0 ? piece.to_stride : below(room / last + 1);
      piece.from_stride = std::min<uint64_t>(piece.from_stride, room / last);
    }
    piece.from = below(room - last * piece.from_stride + 1);
  }

  std::mt19937_64 random_;
  const size_t bytes_;
};

// Copies each byte by itself.
inline void copy_as_said(std::byte* to, const std::byte* from, const symm_piece_t& piece) {
  for (uint64_t row = 0; row < std::max<uint64_t>(piece.rows, 1); ++row) {
    for (uint64_t i = 0; i < piece.bytes; ++i) {
      to[piece.to + row * piece.to_stride + i] = from[piece.from + row * piece.from_stride + i];
    }
  }
}

inline void copy_as_said(
    std::byte* to, const std::byte* from, const std::vector<symm_piece_t>& pieces) {
  for (const symm_piece_t& piece : pieces) {
    copy_as_said(to, from, piece);
  }
}

// Bytes of which each differs from those near it.
inline std::vector<std::byte> distinct_bytes(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& one : bytes) {
    one = static_cast<std::byte>(random());
  }
  return bytes;
}
}  // namespace support
