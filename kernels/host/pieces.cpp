// Collectives in pieces: what each rank sends to each has a length and a place of its own,
// which only the two of them know. Every rank leaves a table of where its pieces lie in its
// scratch before it enters. A rank that has a piece to take reads it from the sender's
// operand, if that is symmetric memory, else from the sender's scratch, chunk by chunk, in as
// many rounds as the longest piece of all ranks needs. So ranks with symmetric and with
// private memory mix as they like.
#include "kernels/pieces.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/collective.hpp"
#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/execution.hpp"
#include "kernels/host/operands.hpp"
#include "kernels/host/piece_table.hpp"
#include "kernels/host/publish.hpp"
#include "kernels/host/slices.hpp"
#include "kernels/types.hpp"

namespace symm::host {
namespace {
const PieceTable& table_of(const Execution& x, int rank) noexcept {
  return *reinterpret_cast<const PieceTable*>(scratch_of(x, rank));
}

// The rows in which this rank's pieces lie in send.
Rows rows_of_send(const Execution& x) noexcept {
  return traits(x.call.collective).has_op ? Rows(*x.call.pieces) : Rows();
}

// Whether a slot holds a chunk for each rank, rather than one chunk that is sent to all.
bool sends_to_each(const Execution& x) noexcept { return traits(x.call.collective).send_per_rank; }

std::byte* slot(const Execution& x, int owner, size_t round, int reader) noexcept {
  const size_t pieces = sends_to_each(x) ? static_cast<size_t>(x.size) : 1;
  return scratch_of(x, owner) + PieceTable::bytes(x.size) +
         slot_of(round, x.plan.piece_bytes * pieces) +
         (sends_to_each(x) ? static_cast<size_t>(reader) * x.plan.piece_bytes : 0);
}

// The part of a piece that moves in a round.
Range part_of(const Execution& x, size_t bytes, size_t round) noexcept {
  return host::part_of({0, bytes}, round, x.plan.piece_bytes);
}

void fill_slot(const Execution& x, size_t round) noexcept {
  const Pieces& mine = *x.call.pieces;
  const Rows rows = rows_of_send(x);
  for (int peer = 0; peer < x.size; ++peer) {
    const Piece& piece = mine.send[static_cast<size_t>(peer)];
    const Range chunk = part_of(x, piece.bytes, round);
    if (peer == x.rank || chunk.size() == 0) continue;
    std::byte* const to = slot(x, x.rank, round, peer);
    in_rows(rows, chunk.begin, chunk.size(), [&](size_t at, size_t done, size_t part) {
      copy(to + done, x.send() + piece.at + at, part, false);
    });
    if (!sends_to_each(x)) return;
  }
}

// Copies bytes of the piece from `peer`, from offset `at` on, into this rank's recv.
void keep_part(
    const Execution& x, int peer, size_t at, const std::byte* from, size_t bytes) noexcept {
  const Pieces& mine = *x.call.pieces;
  std::byte* const piece = x.recv() + mine.recv[static_cast<size_t>(peer)].at;
  in_rows(mine, at, bytes,
      [&](size_t to, size_t done, size_t part) { copy_planned(x, piece + to, from + done, part); });
}

// Whether a piece that lies in rows, or in one stretch, is within `room` bytes.
bool fits(const Piece& piece, const Rows& rows, size_t room) noexcept {
  const bool in_rows = rows.row_bytes != 0;
  const size_t first = in_rows ? rows.row_bytes : piece.bytes;
  if (piece.at > room || first > room - piece.at) return false;
  const size_t more = in_rows && piece.bytes != 0 ? piece.bytes / rows.row_bytes - 1 : 0;
  return more == 0 || rows.row_stride == 0 || more <= (room - piece.at - first) / rows.row_stride;
}

// Finds out, in a broadcast of bytes, how many there are. False, on all ranks: one of them has too
// little room.
bool find_bytes(const Execution& x) {
  Pieces& mine = *x.call.pieces;
  const auto root = static_cast<size_t>(x.call.root);
  const bool am_root = x.rank == x.call.root;
  mine.found = {};
  mine.found.bytes = am_root ? mine.send_bytes : table_of(x, x.call.root).pieces()[x.rank].bytes;
  for (int peer = 0; peer < x.size; ++peer) {
    if (peer != x.call.root) mine.found.add_room(peer, table_of(x, peer).room);
  }

  if (!mine.found.fits()) return false;
  if (!am_root) mine.recv[root].bytes = mine.found.bytes;
  return true;
}

// The pieces that all ranks announced, after the check that they are as long as this rank expects.
struct Origins {
  explicit Origins(const Execution& x) : direct(x.size), own(rows_of_send(x)) {
    const Pieces& mine = *x.call.pieces;
    if (own.row_bytes != 0) strides.resize(static_cast<size_t>(x.size));
    size_t longest = 0;
    for (int peer = 0; peer < x.size; ++peer) {
      const auto p = static_cast<size_t>(peer);
      const PieceTable& table = table_of(x, peer);
      const Piece said = table.pieces()[x.rank];
      const Rows rows = table.rows;
      const bool readable = x.plan.zero_copy && x.peer_send[p] != nullptr;
      if (said.bytes != mine.recv[p].bytes || (readable && !fits(said, rows, x.peer_room[p]))) {
        x.sync.disagree(peer, {said.bytes, mine.recv[p].bytes});
      }
      if (rows.row_bytes != own.row_bytes) {
        const auto length = [&](const Rows& of) {
          return of.row_bytes != 0 ? of.row_bytes : said.bytes;
        };
        x.sync.disagree(peer, {length(rows), length(own), true});
      }
      if (own.row_bytes != 0) strides[p] = rows.row_stride;
      // This rank knows where its own piece lies.
      const std::byte* const begin = peer == x.rank ? x.send() : x.peer_send[p];
      direct[peer] = peer == x.rank || readable ? begin + said.at : nullptr;
      any_direct = any_direct || readable;
      if (!readable) longest = std::max(longest, table.longest);
    }

    rounds = longest == 0 ? 0 : (longest - 1) / x.plan.piece_bytes + 1;
  }

  // Where byte `at` of the piece of a rank lies that is read directly.
  const std::byte* place(int peer, size_t at) noexcept {
    const size_t stride = strides.empty() ? 0 : strides[static_cast<size_t>(peer)];
    return direct[peer] + place_in({own.row_bytes, stride}, at);
  }

  Sources direct;               // null: staged
  Rows own;                     // of this rank's send; all ranks' rows are as long
  std::vector<size_t> strides;  // of all ranks, if there are rows
  bool any_direct = false;      // some rank's send is read by others
  size_t rounds = 0;            // equal on all ranks, like any_direct
};

// Moves the staged pieces, in as many rounds as it takes; `take(round)` copies the chunks that have
// come for this rank.
template <class Take>
void in_rounds(const Execution& x, const Origins& sources, const Take& take) {
  if (sources.rounds == 0) return;
  const bool staged = !x.plan.zero_copy || x.peer_send[x.rank] == nullptr;
  publish(
      x, sources.rounds, Part{},
      [&](size_t round) {
        if (staged) fill_slot(x, round);
      },
      take, true);
}
}  // namespace

void lay_out_pieces(const Execution& x, bool staged) {
  const Pieces& mine = *x.call.pieces;
  auto& table = *reinterpret_cast<PieceTable*>(scratch_of(x, x.rank));
  table = {0, mine.recv_bytes, rows_of_send(x)};
  for (int peer = 0; peer < x.size; ++peer) {
    const Piece& piece = table.pieces()[peer] = mine.send[static_cast<size_t>(peer)];
    if (staged && peer != x.rank) table.longest = std::max(table.longest, piece.bytes);
  }
  if (staged) fill_slot(x, 0);
}

// Operands that this rank can read directly are copied last. In place they overwrite this rank's
// own operand, all of which has been sent by then.
void exchange_pieces(const Execution& x) {
  if (x.call.collective == Collective::broadcast_bytes && !find_bytes(x)) return;

  Origins sources(x);
  const std::vector<Piece>& expected = x.call.pieces->recv;
  in_rounds(x, sources, [&](size_t round) {
    for (int peer = 0; peer < x.size; ++peer) {
      if (sources.direct[peer] != nullptr) continue;
      const Range chunk = part_of(x, expected[static_cast<size_t>(peer)].bytes, round);
      if (chunk.size() != 0) {
        keep_part(x, peer, chunk.begin, slot(x, peer, round, x.rank), chunk.size());
      }
    }
  });

  for (int step = 0; step < x.size; ++step) {
    const auto peer = static_cast<int>((int64_t{x.rank} + step) % x.size);
    const size_t bytes = expected[static_cast<size_t>(peer)].bytes;
    if (sources.direct[peer] != nullptr && bytes != 0) {
      keep_part(x, peer, 0, sources.direct[peer], bytes);
    }
  }

  if (sources.any_direct) leave_together(x);
}

// Reduces in rounds if any piece is staged, and else everything at the end.
void reduce_pieces(const Execution& x) {
  Origins sources(x);
  const size_t bytes = x.call.pieces->recv[0].bytes;
  const Rows packed{sources.own.row_bytes, sources.own.row_bytes};
  Sources from(x.size);
  const auto reduce_range = [&](Range range, size_t round) {
    in_rows(packed, range.begin, range.size(), [&](size_t at, size_t done, size_t part) {
      for (int peer = 0; peer < x.size; ++peer) {
        from[peer] = sources.direct[peer] != nullptr ? sources.place(peer, at)
                                                     : slot(x, peer, round, x.rank) + done;
      }
      reduce_into(x, from.data(), x.recv() + at, part);
    });
  };

  bool any_staged = false;
  for (int peer = 0; peer < x.size; ++peer) {
    any_staged = any_staged || sources.direct[peer] == nullptr;
  }

  in_rounds(x, sources, [&](size_t round) {
    if (any_staged) reduce_range(part_of(x, bytes, round), round);
  });

  if (!any_staged) reduce_range({0, bytes}, 0);
  if (sources.any_direct) leave_together(x);
}
}  // namespace symm::host
