// The arguments of the calls that put and get pieces.
#pragma once

#include <cstdint>
#include <optional>

#include "capi/guard.hpp"
#include "capi/structs.hpp"
#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "kernels/compare.hpp"
#include "kernels/piece_list.hpp"
#include "symm/symm.h"

namespace symm::capi {
// The arguments of a put or get of pieces. Fields that do not go with each other are refused here,
// and pieces that are wrong where they are copied.
inline symm_pieces_call_t pieces_of(const symm_pieces_call_t* call) {
  require(call, "call");
  const symm_pieces_call_t given =
      read_struct(call, SYMM_PIECES_CALL_INIT, SYMM_FIRST_SIZE(symm_pieces_call_t, value), "call");
  const bool signals = (given.flags & SYMM_PIECES_SIGNAL) != 0;
  const bool on_device = (given.flags & SYMM_PIECES_ON_DEVICE) != 0;
  const auto channel = static_cast<uint64_t>(int64_t{given.channel});
  const auto op = static_cast<uint64_t>(int64_t{given.op});
  require_known_bits(given.flags, SYMM_PIECES_SIGNAL | SYMM_PIECES_ON_DEVICE, "call.flags");
  require_with_flag(signals, channel, "call.channel", "SYMM_PIECES_SIGNAL");
  require_with_flag(signals, op, "call.op", "SYMM_PIECES_SIGNAL");
  require_with_flag(signals, given.value, "call.value", "SYMM_PIECES_SIGNAL");
  require_with_flag(on_device, reinterpret_cast<uintptr_t>(given.device_count), "call.device_count",
      "SYMM_PIECES_ON_DEVICE");

  const bool are_pages = given.page_bytes != 0;
  if (are_pages && given.pieces != nullptr) {
    throw Error(Status::invalid_argument, "call.pieces: is not NULL, though page_bytes is given");
  }
  if (!are_pages && given.pieces == nullptr && given.count != 0) {
    throw Error(Status::invalid_argument, "call.pieces: is NULL, and page_bytes is 0");
  }
  if (!are_pages && given.from_table != nullptr) {
    throw Error(Status::invalid_argument, "call.from_table: is given, but page_bytes is 0");
  }
  if (!are_pages && given.to_table != nullptr) {
    throw Error(Status::invalid_argument, "call.to_table: is given, but page_bytes is 0");
  }
  return given;
}

inline PieceList list_of(const symm_pieces_call_t& call) {
  return {call.pieces, call.count, call.page_bytes, call.from_table, call.to_table,
      (call.flags & SYMM_PIECES_ON_DEVICE) != 0, call.device_count};
}

inline std::optional<OutgoingSignal> signal_of(const symm_pieces_call_t& call) {
  if ((call.flags & SYMM_PIECES_SIGNAL) == 0) return std::nullopt;
  return OutgoingSignal{call.channel, static_cast<SignalOp>(call.op), call.value};
}
}  // namespace symm::capi
