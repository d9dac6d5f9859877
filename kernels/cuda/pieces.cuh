// Finds and copies pieces of operands in kernels (kernels/pieces.hpp).
#pragma once

#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/wait.cuh"

namespace symm::cuda {
// The packs of a piece are those of its rows, one row after the other.
struct Rows {
  // Bytes and packs of one row.
  uint64_t bytes;
  uint64_t packs;
  // Packs of all rows.
  uint64_t all;

  __device__ Rows(const PiecesArgs& args, uint64_t piece)
      : bytes(args.row_bytes != 0 ? args.row_bytes : piece),
        packs(packs_of(bytes)),
        all(args.row_bytes != 0 ? piece / bytes * packs : packs) {}

  __device__ uint64_t row_of(uint64_t q) const { return q < packs ? 0 : q / packs; }

  __device__ uint4 load(const char* piece, uint64_t stride, uint64_t q) const {
    const uint64_t row = row_of(q);
    return load_pack(piece + row * stride, bytes, q - row * packs);
  }

  __device__ void store(char* piece, uint64_t stride, uint64_t q, uint4 v) const {
    const uint64_t row = row_of(q);
    store_pack(piece + row * stride, bytes, q - row * packs, v);
  }
};

// Finds the piece of send or recv that goes to rank p, or comes from it, by the counts on the
// device. False: it does not lie within the operand, which has been reported.
static __device__ bool read_counts(
    const PiecesArgs& all, int p, uint32_t of_recv, PiecesArgs::Range& piece, uint32_t block) {
  const PiecesArgs::Counts& given = all.counts[of_recv];
  const auto* counts = reinterpret_cast<const uint64_t*>(given.counts);
  const auto* displacements = reinterpret_cast<const uint64_t*>(given.displacements);
  const uint64_t count = counts[p];

  uint64_t at = 0;
  if (displacements != nullptr) {
    at = count == 0 ? 0 : displacements[p];
  } else {
    for (int r = 0; r < p; ++r) {
      // The thread of rank r reports that.
      if (counts[r] > given.capacity - at) return false;
      at += counts[r];
    }
  }

  if (count > given.capacity || at > given.capacity - count) {
    report(all.call.comm, WaitError::beyond_capacity, p, block, of_recv, 0, at, 0, count,
        given.capacity);
    return false;
  }
  piece = {at * all.element, count * all.element};
  return true;
}
}  // namespace symm::cuda
