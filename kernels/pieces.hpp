// The operands of a collective in pieces, as one rank has them: what it sends to each rank, and what it expects from each.
#pragma once

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

struct Pieces {
  std::vector<Piece> send, recv;          // by the rank that they go to, and come from
  DeviceCounts device_send, device_recv;  // instead, if there are counts
  // Where the last of them ends, at most.
  size_t send_bytes = 0;
  size_t recv_bytes = 0;
  // A piece of recv lies in rows of so many bytes, so far apart; 0: in one.
  size_t row_bytes = 0;
  size_t row_stride = 0;
};

// What is wrong with a block that reaches out of its operand, "send" or "recv"; in elements.
inline std::string beyond_capacity(const char* operand, size_t rank, uint64_t count, uint64_t at, uint64_t capacity) {
  return text(operand, "_counts[", rank, "]: ", count, " elements from element ", at, " on do not lie within ", operand,
      "_capacity ", capacity);
}
}  // namespace symm
