// The operands of a collective in pieces, as one rank has them: what it sends to each rank, and
// what it expects from each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/text.hpp"

namespace symm {
struct Piece {
  size_t at = 0;  // bytes from the start of the operand
  size_t bytes = 0;
};

// Elements that the operands have room for.
struct Capacities {
  size_t send;
  size_t recv;
};

// The caller's numbers that describe the pieces, in elements and by rank, as symm.h has them. Each
// collective takes some of them and ignores the others.
struct PieceCounts {
  const size_t* send_counts = nullptr;
  const size_t* send_displacements = nullptr;
  const size_t* recv_counts = nullptr;
  const size_t* recv_displacements = nullptr;
  size_t rows = 0;
  size_t row_count = 0;
  // Elements of this rank's block, where only the root has counts. In a broadcast of bytes: those
  // that the root sends, or that another rank has room for.
  size_t own_count = 0;
  size_t stride = 0;  // from one row to the next, of the operand that has all ranks' rows
  // If they are given, the counts are read when the call runs, from memory of the device.
  std::optional<Capacities> capacities = {};
};

// The numbers by rank that the device reads when the call runs; displacements may be null.
struct DeviceCounts {
  const uint64_t* counts = nullptr;
  const uint64_t* displacements = nullptr;
};

// A piece lies in rows of `row_bytes` bytes, one every `row_stride`; 0: in one stretch. The pieces
// of recv do, or those of send where they are combined; the others are in one stretch.
struct Rows {
  size_t row_bytes = 0;
  size_t row_stride = 0;
};

// Where byte `at` of a piece lies, from the piece's first byte on.
constexpr size_t place_in(const Rows& rows, size_t at) noexcept {
  return rows.row_bytes == 0 ? at : at / rows.row_bytes * rows.row_stride + at % rows.row_bytes;
}

// Moves `bytes` bytes of a piece, from `at` on, row by row: move(where in the operand the row's
// part begins, how much was moved before, the part's bytes).
template <class Move>
void in_rows(const Rows& rows, size_t at, size_t bytes, const Move& move) {
  if (rows.row_bytes == 0) {
    if (bytes != 0) move(at, size_t{0}, bytes);
    return;
  }

  size_t part = 0;
  for (size_t done = 0; done < bytes; done += part) {
    part = std::min(bytes - done, rows.row_bytes - at % rows.row_bytes);
    move(place_in(rows, at), done, part);
    at += part;
  }
}

// What all ranks learn in a broadcast of bytes: how many there are, and which rank has the least
// room for them.
struct BytesFound {
  size_t bytes = 0;
  size_t room = SIZE_MAX;
  int rank = 0;

  void add_room(int of, size_t its_room) noexcept {
    if (its_room < room) {
      room = its_room;
      rank = of;
    }
  }
  bool fits() const noexcept { return bytes <= room; }
};

// The caller gives the counts; check_call() finds them possible and lays the pieces out.
struct Pieces : Rows {
  PieceCounts counts;
  std::vector<Piece> send;   // by the rank that each goes to
  std::vector<Piece> recv;   // by the rank that each comes from
  DeviceCounts device_send;  // in place of the pieces, if there are capacities
  DeviceCounts device_recv;
  size_t send_bytes = 0;  // where the last piece of the operand ends, at most
  size_t recv_bytes = 0;
  BytesFound found;  // by the call, in a broadcast of bytes
};

// The bytes that one rank sends to another, and those that the other expects; or those of a row.
struct PieceLengths {
  size_t sent;
  size_t expected;
  bool of_rows = false;
};

// The text of a refusal: a block reaches out of its operand, "send" or "recv". In elements.
inline std::string beyond_capacity(
    const char* operand, size_t rank, uint64_t count, uint64_t at, uint64_t capacity) {
  return text(operand, "_counts[", rank, "]: ", count, " elements from element ", at,
      " on do not lie within ", operand, "_capacity ", capacity);
}
}  // namespace symm
