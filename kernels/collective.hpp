// What each collective is, for host and device: whoever asks whether one has an
// operator, a root or a block for every rank asks here.
#pragma once

#include "kernels/types.hpp"

namespace symm {
struct CollectiveTraits {
  bool has_op;
  bool from_root;      // only the root's send counts
  bool to_root;        // only the root's recv counts
  bool send_per_rank;  // send has a block for every rank
  bool recv_per_rank;  // recv has a block from every rank
  // the ranks' vectors make one result of the same size,
  // of which each rank can do a slice: move it, ...
  bool cut_into_slices;
  // what each rank sends to each is a piece of its own length and place (pieces.hpp)
  bool in_pieces;
  // ... or reduce it
  SYMM_HOST_DEVICE constexpr bool reduced_in_slices() const { return has_op && cut_into_slices; }
  SYMM_HOST_DEVICE constexpr bool has_root() const { return from_root || to_root; }
};

// Comparisons, and no switch: where a kernel asks
// for one of them, nothing is left of the others.
SYMM_HOST_DEVICE constexpr CollectiveTraits traits(Collective c) {
  using enum Collective;
  return {
      .has_op = c == allreduce || c == reduce_scatter || c == reduce || c == reduce_scatterv ||
                c == allreduce_rmsnorm,
      .from_root = c == broadcast || c == scatter,
      .to_root = c == reduce || c == gather,
      .send_per_rank = c == reduce_scatter || c == alltoall || c == reduce_scatterv ||
                       c == alltoallv || c == scatter,
      .recv_per_rank = c == allgather || c == alltoall || c == allgatherv || c == alltoallv ||
                       c == gather || c == allgather_rows,
      .cut_into_slices = c == allreduce || c == reduce || c == broadcast,
      .in_pieces = c >= allgatherv && c <= allgather_rows,
  };
}

// Are its counts given for each rank, and so compared piece by piece?
SYMM_HOST_DEVICE constexpr bool has_counts(Collective c) {
  return c == Collective::allgatherv || c == Collective::reduce_scatterv ||
         c == Collective::alltoallv;
}

// Do others deliver results to `rank`'s recv, rather than `rank` itself from what they sent it?
SYMM_HOST_DEVICE constexpr bool is_delivered_to(Collective collective, int rank, int root) {
  const CollectiveTraits its = traits(collective);
  if (its.to_root) return rank == root;
  if (its.from_root) return rank != root;  // who has it all
  return !its.send_per_rank;
}

// Bytes of the operands that have blocks of one size, where `unit` is count * element size.
struct OperandBytes {
  size_t send, recv;
};
SYMM_HOST_DEVICE constexpr OperandBytes operand_bytes(
    const CollectiveTraits& its, size_t unit, int ranks) {
  const size_t all = unit * static_cast<size_t>(ranks);
  return {its.send_per_rank ? all : unit, its.recv_per_rank ? all : unit};
}
SYMM_HOST_DEVICE constexpr OperandBytes operand_bytes(
    Collective collective, size_t unit, int ranks) {
  return operand_bytes(traits(collective), unit, ranks);
}
}  // namespace symm
