// The table of collectives, for host and device. A row says what a collective is, and what its
// calls must be like: core/group/checks.cpp holds calls against it. Code that serves several
// collectives asks the table whether one has an operator, a root or a block for every rank.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/types.hpp"

namespace symm {
// How a collective uses its operands.
struct CollectiveTraits {
  bool has_op;
  bool from_root;        // only the root's send counts
  bool to_root;          // only the root's recv counts
  bool send_per_rank;    // send has a block for every rank
  bool recv_per_rank;    // recv has a block from every rank
  bool cut_into_slices;  // one result of the operands' size, of which each rank can do a slice
  bool in_pieces;        // each pair of ranks has a piece of its own length and place (pieces.hpp)
  bool of_prefix;        // a rank's result is of the ranks up to its own, in their order

  SYMM_HOST_DEVICE constexpr bool reduced_in_slices() const { return has_op && cut_into_slices; }
  SYMM_HOST_DEVICE constexpr bool has_root() const { return from_root || to_root; }
  constexpr bool operator==(const CollectiveTraits&) const = default;
};

// The in-place form of a collective: where send and recv may overlap.
enum class InPlace : uint8_t {
  own_block,    // this rank's block of send is its block of recv
  same_pieces,  // send is recv, and each piece of one is a piece of the other
  same_rows,    // an output is all of an input that has rows
};

struct CollectiveRow {
  Collective collective;
  CollectiveTraits traits;
  bool has_send_counts;  // the call says how many elements go to each rank
  bool has_recv_counts;  // the call says how many elements come from each rank
  bool has_scaling;      // the call may have a factor, or a result wider than its operands
  bool has_norm;         // RMSNorm follows, and the length of its rows stands for the root
  InPlace in_place;
  const char* count;  // what symm.h calls the number of elements; "": there is no such number
};

struct CollectiveTable {
  CollectiveRow rows[kCollectives];

  constexpr const CollectiveRow& operator[](Collective collective) const {
    return rows[static_cast<size_t>(collective)];
  }
};

inline constexpr CollectiveTable kCollectiveTable = [] {
  using enum Collective;
  using enum InPlace;
  constexpr bool x = true;   // yes
  constexpr bool _ = false;  // no
  // clang-format off
  return CollectiveTable{{
      //                     has_op
      //                     |  from_root
      //                     |  |  to_root
      //                     |  |  |  send_per_rank
      //                     |  |  |  |  recv_per_rank
      //                     |  |  |  |  |  cut_into_slices
      //                     |  |  |  |  |  |  in_pieces
      //                     |  |  |  |  |  |  |  of_prefix
      //                     |  |  |  |  |  |  |  |   has_send_counts
      //                     |  |  |  |  |  |  |  |   |  has_recv_counts
      //                     |  |  |  |  |  |  |  |   |  |  has_scaling
      //                     |  |  |  |  |  |  |  |   |  |  |  has_norm
      //                     |  |  |  |  |  |  |  |   |  |  |  |  in_place     count
      {allreduce,           {x, _, _, _, _, x, _, _}, _, _, x, _, own_block,   "count"},
      {reduce_scatter,      {x, _, _, x, _, _, _, _}, _, _, x, _, own_block,   "recv_count"},
      {allgather,           {_, _, _, _, x, _, _, _}, _, _, _, _, own_block,   "send_count"},
      {broadcast,           {_, x, _, _, _, x, _, _}, _, _, _, _, own_block,   "count"},
      {reduce,              {x, _, x, _, _, x, _, _}, _, _, x, _, own_block,   "count"},
      {alltoall,            {_, _, _, x, x, _, _, _}, _, _, _, _, own_block,   "count"},
      {allgatherv,          {_, _, _, _, x, _, x, _}, _, x, _, _, own_block,   ""},
      {reduce_scatterv,     {x, _, _, x, _, _, x, _}, x, _, _, _, own_block,   ""},
      {alltoallv,           {_, _, _, x, x, _, x, _}, x, x, _, _, same_pieces, ""},
      {gather,              {_, _, x, _, x, _, x, _}, _, _, _, _, own_block,   "count"},
      {scatter,             {_, x, _, x, _, _, x, _}, _, _, _, _, own_block,   "count"},
      {allgather_rows,      {_, _, _, _, x, _, x, _}, _, _, _, _, own_block,   "row_count"},
      {allreduce_rmsnorm,   {x, _, _, _, _, _, _, _}, _, _, _, x, same_rows,   "tokens"},
      {scan,                {x, _, _, _, _, _, _, x}, _, _, _, _, own_block,   "count"},
      {exscan,              {x, _, _, _, _, _, _, x}, _, _, _, _, own_block,   "count"},
      {reduce_scatter_rows, {x, _, _, x, _, _, x, _}, _, _, _, _, own_block,   "row_count"},
      {gatherv,             {_, _, x, _, x, _, x, _}, _, x, _, _, own_block,   ""},
      {scatterv,            {_, x, _, x, _, _, x, _}, x, _, _, _, own_block,   ""},
      {broadcast_bytes,     {_, x, _, _, _, _, x, _}, x, _, _, _, own_block,   ""},
  }};
  // clang-format on
}();

// The traits of any value, also of one that is not known: it has none. They are written as
// comparisons, and not looked up: of a kernel that asks for one of them, nothing of the others
// remains. A switch, or comparisons made of the table by a template, cost kernels up to 10
// registers or other code. That both say the same is asserted below.
SYMM_HOST_DEVICE constexpr CollectiveTraits traits(Collective c) {
  using enum Collective;
  return {
      .has_op = c == allreduce || c == reduce_scatter || c == reduce || c == reduce_scatterv ||
                c == allreduce_rmsnorm || c == scan || c == exscan || c == reduce_scatter_rows,
      .from_root = c == broadcast || c == scatter || c == scatterv || c == broadcast_bytes,
      .to_root = c == reduce || c == gather || c == gatherv,
      .send_per_rank = c == reduce_scatter || c == alltoall || c == reduce_scatterv ||
                       c == alltoallv || c == scatter || c == reduce_scatter_rows || c == scatterv,
      .recv_per_rank = c == allgather || c == alltoall || c == allgatherv || c == alltoallv ||
                       c == gather || c == allgather_rows || c == gatherv,
      .cut_into_slices = c == allreduce || c == reduce || c == broadcast,
      .in_pieces = (c >= allgatherv && c <= allgather_rows) ||
                   (c >= reduce_scatter_rows && c <= broadcast_bytes),
      .of_prefix = c == scan || c == exscan,
  };
}

// The number of ranks, from rank 0 on, whose operands make the result of `rank`, if there is an
// operator.
constexpr int ranks_combined(Collective collective, int rank, int ranks) {
  if (collective == Collective::scan) return rank + 1;
  return collective == Collective::exscan ? rank : ranks;
}

// Whether the call gives counts for each rank, which ranks then compare piece by piece; or the root
// gives one that no other rank knows.
SYMM_HOST_DEVICE constexpr bool has_counts(Collective c) {
  return c == Collective::allgatherv || c == Collective::reduce_scatterv ||
         c == Collective::alltoallv || c == Collective::gatherv || c == Collective::scatterv ||
         c == Collective::broadcast_bytes;
}

// Whether the operand that has a block for each rank, or from each, has them in rows.
constexpr bool has_rows(Collective c) {
  return c == Collective::allgather_rows || c == Collective::reduce_scatter_rows;
}

static_assert([] {
  for (size_t row = 0; row < kCollectives; ++row) {
    const CollectiveRow& found = kCollectiveTable.rows[row];
    const auto collective = static_cast<Collective>(row);
    if (found.collective != collective || found.traits != traits(collective)) return false;
    const bool counted = found.has_send_counts || found.has_recv_counts;
    if (counted != has_counts(collective)) return false;
  }
  return true;
}());

// Whether other ranks deliver results to `rank`'s recv. Where they do not, `rank` itself makes its
// results of what it was sent.
SYMM_HOST_DEVICE constexpr bool is_delivered_to(Collective collective, int rank, int root) {
  const CollectiveTraits what = traits(collective);
  if (what.to_root) return rank == root;
  if (what.from_root) return rank != root;  // the root has all of it
  return !what.send_per_rank;
}

// Bytes of the operands that have blocks of one size, where `unit` is count * element size.
struct OperandBytes {
  size_t send;
  size_t recv;
};

SYMM_HOST_DEVICE constexpr OperandBytes operand_bytes(
    const CollectiveTraits& what, size_t unit, int ranks) {
  const size_t all = unit * static_cast<size_t>(ranks);
  return {what.send_per_rank ? all : unit, what.recv_per_rank ? all : unit};
}

SYMM_HOST_DEVICE constexpr OperandBytes operand_bytes(
    Collective collective, size_t unit, int ranks) {
  return operand_bytes(traits(collective), unit, ranks);
}
}  // namespace symm
