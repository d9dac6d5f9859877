// Short rows of lists of pieces travel between machines in messages of many rows: first the places
// of the rows in the block, and then their bytes, row by row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "kernels/host/copy_pieces.hpp"
#include "kernels/piece_list.hpp"
#include "kernels/piece_rows.hpp"
#include "symm/symm.h"

namespace symm::multinode {
// The payload of such a message. The rank that receives it scatters or gathers the rows while it
// serves nobody else, so that messages are shorter than those of a single put.
constexpr size_t kPackedMessage = size_t{256} << 10;
// A row of so many bytes goes by itself, without a copy.
constexpr size_t kLongRow = size_t{16} << 10;

// Rows in the block of the rank that receives the message, as they travel.
struct RemoteRows {
  uint64_t at;
  uint64_t bytes;
  uint64_t rows;
  uint64_t stride;
};

// The rows of one message.
struct PackedRows {
  std::vector<RemoteRows> there;
  // The same rows in memory of this process, and where they are in the packed bytes.
  std::vector<symm_piece_t> here;
  size_t bytes = 0;

  size_t payload() const { return there.size() * sizeof(RemoteRows) + bytes; }
  PieceList list() const { return {here.data(), here.size()}; }
};

enum class Direction { put, get };

// Adds as many rows of a piece, from row `first` on, as there is room for. Returns their number.
inline uint64_t add_rows(PackedRows& packed, const symm_piece_t& piece, uint64_t first,
    size_t offset, Direction direction) {
  const size_t room = kPackedMessage - std::min(kPackedMessage, packed.payload());
  if (room < sizeof(RemoteRows) + piece.bytes) return 0;

  const uint64_t fitting = (room - sizeof(RemoteRows)) / piece.bytes;
  const uint64_t rows = std::min(rows_of(piece) - first, fitting);
  const uint64_t from = piece.from + first * piece.from_stride;
  const uint64_t to = piece.to + first * piece.to_stride;
  if (direction == Direction::put) {
    packed.there.push_back({offset + to, piece.bytes, rows, piece.to_stride});
    packed.here.push_back({from, packed.bytes, piece.bytes, rows, piece.from_stride, piece.bytes});
  } else {
    packed.there.push_back({offset + from, piece.bytes, rows, piece.from_stride});
    packed.here.push_back({packed.bytes, to, piece.bytes, rows, piece.bytes, piece.to_stride});
  }
  packed.bytes += rows * piece.bytes;
  return rows;
}

// Calls send(rows) for each message that the pieces of short rows need, and send_long(to, from,
// bytes) for each long row.
template <class Send, class SendLong>
void each_message(const PieceList& list, size_t offset, Direction direction, const Send& send,
    const SendLong& send_long) {
  PackedRows packed;
  const auto flush = [&] {
    if (!packed.there.empty()) send(packed);
    packed = {};
  };

  for (size_t i = 0; i < list.count; ++i) {
    const symm_piece_t piece = list[i];
    if (piece.bytes >= kLongRow) {
      each_stretch(piece, send_long);
      continue;
    }
    if (piece.bytes == 0) continue;

    for (uint64_t row = 0; row < rows_of(piece);) {
      const uint64_t added = add_rows(packed, piece, row, offset, direction);
      if (added == 0) flush();
      row += added;
    }
  }
  flush();
}

// The rows of a message as pieces: from the packed bytes to the block, or back. Nothing if the
// message is none, or if a row does not lie within the block.
inline std::optional<std::vector<symm_piece_t>> unpacked(std::span<const std::byte> payload,
    uint64_t count, size_t block_bytes, size_t packed_bytes, Direction direction) {
  if (count > payload.size() / sizeof(RemoteRows)) return std::nullopt;
  std::vector<symm_piece_t> pieces;
  size_t at = 0;

  for (size_t i = 0; i < count; ++i) {
    RemoteRows rows{};
    std::memcpy(&rows, payload.data() + i * sizeof rows, sizeof rows);
    symm_piece_t piece = {at, rows.at, rows.bytes, rows.rows, rows.bytes, rows.stride};
    if (!lies_within(piece, read_of(piece), packed_bytes) ||
        !lies_within(piece, written_of(piece), block_bytes)) {
      return std::nullopt;
    }
    at += rows_of(piece) * piece.bytes;
    if (direction == Direction::get) {
      std::swap(piece.from, piece.to);
      std::swap(piece.from_stride, piece.to_stride);
    }
    pieces.push_back(piece);
  }
  return pieces;
}
}  // namespace symm::multinode
