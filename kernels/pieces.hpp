// SPDX-License-Identifier: Apache-2.0
//
// The operands of a collective in pieces, as one rank has them: what it sends to each rank, and what it expects from each.
#pragma once

#include <cstddef>
#include <vector>

namespace symm {

struct Piece {
  size_t at = 0;  // bytes from the start of the operand
  size_t bytes = 0;
};

struct Pieces {
  std::vector<Piece> send, recv;  // by the rank that they go to, and come from
  // Where the last of them ends.
  size_t send_bytes = 0;
  size_t recv_bytes = 0;
  // A piece of recv lies in rows of so many bytes, so far apart; 0: in one.
  size_t row_bytes = 0;
  size_t row_stride = 0;
};

}  // namespace symm
