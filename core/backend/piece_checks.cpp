#include "core/backend/piece_checks.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include "core/base/error.hpp"
#include "kernels/piece_list.hpp"
#include "kernels/piece_rows.hpp"
#include "symm/symm.h"

namespace symm {
namespace {
std::string why_beyond(const symm_piece_t& piece, const RowPlaces& rows, const PieceSide& side) {
  const std::string size =
      side.bytes == SIZE_MAX ? "any memory" : format("the %zu bytes of %s", side.bytes, side.name);
  if (rows_of(piece) == 1) {
    return format("%lu bytes from byte %lu on go beyond %s", piece.bytes, rows.at, size.c_str());
  }
  return format("%lu rows of %lu bytes, one every %lu from byte %lu on, go beyond %s",
      rows_of(piece), piece.bytes, rows.stride, rows.at, size.c_str());
}

// What a piece must not be, in the list of pieces and in that of pages, which each have an argument
// of their own with what is wrong.
struct Rule {
  const char* field;  // of a piece
  // The table that has what is wrong of a page. Pages are one row each, and break no rule of rows.
  const uint64_t* PieceList::* table;
  bool (*is_broken)(const symm_piece_t& piece, const PieceSide& from, const PieceSide& to);
  std::string (*why)(const symm_piece_t& piece, const PieceSide& from, const PieceSide& to);
};

constexpr Rule kRules[] = {
    {"from", &PieceList::from_table,
        [](const symm_piece_t& piece, const PieceSide& from, const PieceSide&) {
          return !lies_within(piece, read_of(piece), from.bytes);
        },
        [](const symm_piece_t& piece, const PieceSide& from, const PieceSide&) {
          return why_beyond(piece, read_of(piece), from);
        }},
    {"to", &PieceList::to_table,
        [](const symm_piece_t& piece, const PieceSide&, const PieceSide& to) {
          return !lies_within(piece, written_of(piece), to.bytes);
        },
        [](const symm_piece_t& piece, const PieceSide&, const PieceSide& to) {
          return why_beyond(piece, written_of(piece), to);
        }},
    {"to_stride", nullptr,
        [](const symm_piece_t& piece, const PieceSide&, const PieceSide&) {
          return overlaps_itself(piece);
        },
        [](const symm_piece_t& piece, const PieceSide&, const PieceSide&) {
          return format("%lu is less than the %lu bytes of a row: rows overlap where they go",
              piece.to_stride, piece.bytes);
        }},
};

// The rules are known when this is compiled, so their functions are not called but set in: a list
// may have a hundred thousand pieces of 8 bytes.
template <size_t... kRule>
bool keeps_rules(const symm_piece_t& piece, const PieceSide& from, const PieceSide& to,
    std::index_sequence<kRule...>) {
  return !(kRules[kRule].is_broken(piece, from, to) || ...);
}

[[noreturn]] void refuse_piece(const PieceList& list, size_t i, const PieceSide& from,
    const PieceSide& to, const char* holder) {
  const symm_piece_t piece = list[i];
  const auto is_broken = [&](const Rule& rule) { return rule.is_broken(piece, from, to); };
  const Rule& rule = *std::find_if(std::begin(kRules), std::end(kRules), is_broken);

  std::string argument = format("%spieces[%zu].%s", holder, i, rule.field);
  if (list.pieces == nullptr) {
    const bool is_in_table = (list.*rule.table) != nullptr;
    argument = is_in_table ? format("call.%s_table[%zu]", rule.field, i)
                           : format("call.count: page %zu", i);
  }
  throw Error(Status::invalid_argument,
      format("%s: %s", argument.c_str(), rule.why(piece, from, to).c_str()));
}
}  // namespace

size_t check_pieces(
    const PieceList& list, const PieceSide& from, const PieceSide& to, const char* holder) {
  uint64_t copied = 0;

  for (size_t i = 0; i < list.count; ++i) {
    const symm_piece_t piece = list[i];
    if (piece.bytes == 0) continue;

    if (!keeps_rules(piece, from, to, std::make_index_sequence<std::size(kRules)>())) {
      refuse_piece(list, i, from, to, holder);
    }
    copied = bounded_sum(copied, bounded_product(rows_of(piece), piece.bytes));
  }
  return copied;
}

void require_given(const void* pointer, size_t copied, const char* argument) {
  if (pointer != nullptr || copied == 0) return;
  throw Error(Status::invalid_argument, format("%s: is NULL", argument));
}

PieceList read_on_host(PieceList list) {
  if (list.count_at == nullptr) return list;
  const uint64_t count = *list.count_at;
  if (count > list.count) {
    throw Error(Status::invalid_argument,
        format("call.device_count: there are %lu pieces, more than the %zu of call.count", count,
            list.count));
  }
  list.count = count;
  return list;
}
}  // namespace symm
