// The operands of a collective in pieces, as one rank has them: what it sends to each
// rank, and what it expects from each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/text.hpp"

namespace symm {
struct Piece {
  size_t at = 0;  // bytes from the start of the operand
  size_t bytes = 0;
};

// Where the device reads elements by rank when the call runs; displacements may be null.
struct DeviceCounts {
  const uint64_t* counts = nullptr;
  const uint64_t* displacements = nullptr;
};

// A piece of recv lies in rows of so many bytes, so far apart; 0: in one.
struct Rows {
  size_t row_bytes = 0;
  size_t row_stride = 0;
};
// Of `bytes` bytes of a piece, from `at` on: move(where in recv the row's part begins,
// how much was moved before, its bytes).
template <class Move>
void in_rows(const Rows& rows, size_t at, size_t bytes, const Move& move) {
  if (rows.row_bytes == 0) return move(at, 0, bytes);
  for (size_t done = 0, part = 0; done < bytes; done += part, at += part) {
    part = std::min(bytes - done, rows.row_bytes - at % rows.row_bytes);
    move(at / rows.row_bytes * rows.row_stride + at % rows.row_bytes, done, part);
  }
}

struct Pieces : Rows {
  std::vector<Piece> send, recv;          // by the rank that they go to, and come from
  DeviceCounts device_send, device_recv;  // instead, if there are counts
  // Where the last of them ends, at most.
  size_t send_bytes = 0;
  size_t recv_bytes = 0;
};

// What is wrong with a block that reaches out of its operand, "send" or "recv"; in elements.
inline std::string beyond_capacity(
    const char* operand, size_t rank, uint64_t count, uint64_t at, uint64_t capacity) {
  return text(operand, "_counts[", rank, "]: ", count, " elements from element ", at,
      " on do not lie within ", operand, "_capacity ", capacity);
}
}  // namespace symm
