// Pieces of operands (kernels/pieces.hpp), as a kernel finds and copies them.
#pragma once

#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/wait.cuh"

namespace symm::cuda {
// The packs of a piece: those of its rows, one after the other.
struct Rows {
  uint64_t bytes, packs;  // of one of them
  uint64_t all;

  __device__ Rows(const PiecesArgs& args, uint64_t piece)
      : bytes(args.row_bytes != 0 ? args.row_bytes : piece),
        packs(packs_of(bytes)),
        all(args.row_bytes != 0 ? piece / bytes * packs : packs) {}
  __device__ uint64_t row_of(uint64_t q) const { return q < packs ? 0 : q / packs; }
  __device__ uint4 load(const char* piece, uint64_t q) const {
    const uint64_t row = row_of(q);
    return load_pack(piece + row * bytes, bytes, q - row * packs);
  }
  __device__ void store(char* piece, uint64_t stride, uint64_t q, uint4 v) const {
    const uint64_t row = row_of(q);
    store_pack(piece + row * stride, bytes, q - row * packs, v);
  }
};

// The piece to rank p, or from it, where it has counts on the device; false: they do
// not lie within the operand, which is told.
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
      if (counts[r] > given.capacity - at) return false;  // that rank's thread says so
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
