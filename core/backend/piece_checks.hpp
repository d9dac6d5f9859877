// The pieces of a put or a get are checked here, before anything is copied.
#pragma once

#include <cstddef>

#include "kernels/piece_list.hpp"

namespace symm {
// What the pieces of a list may touch on one side.
struct PieceSide {
  const char* name;  // as in "the 64 bytes of source"
  size_t bytes;      // SIZE_MAX: not known
};

// Throws Error(invalid_argument), which names the piece, unless each piece lies within both sides
// and its rows are apart where they go. Returns the bytes that are copied in all. `holder` has the
// list, as in "call.pieces[3]".
size_t check_pieces(const PieceList& list, const PieceSide& from, const PieceSide& to,
    const char* holder = "call.");
// Throws Error(invalid_argument) unless there is memory for what is copied.
void require_given(const void* pointer, size_t copied, const char* argument);
// The list for a device that is the host: it reads the number of pieces now. Throws
// Error(invalid_argument) if there are more than the list has room for.
PieceList read_on_host(PieceList list);
}  // namespace symm
