// Data that is its own flag. Free cells hold a word that no operand contains: all ones,
// a NaN in every float format of at most 32 bits. An operand that does contain it is
// sent with another NaN in its place (the payload of a NaN is unspecified), so zeros of
// both signs, infinities and everything else arrive as they are. A receiver polls each
// of the four words of a pack, because nothing promises that 16 bytes arrive together,
// and frees the cell when it has read it.
#pragma once

#include "kernels/cuda/epoch.cuh"
#include "kernels/cuda/wait.cuh"

namespace symm::cuda {
inline constexpr uint32_t kFree = 0xFFFFFFFFU;

__device__ __forceinline__ uint32_t sendable(uint32_t word) {
  return word == kFree ? 0x7FFF7FFFU : word;
}
__device__ __forceinline__ uint4 sendable(uint4 v) {
  return {sendable(v.x), sendable(v.y), sendable(v.z), sendable(v.w)};
}
__device__ __forceinline__ bool is_there(uint4 v) {
  return v.x != kFree && v.y != kFree && v.z != kFree && v.w != kFree;
}
__device__ __forceinline__ void free_cell(uint4* cell) {
  store_relaxed(cell, {kFree, kFree, kFree, kFree});
}

// Pack q of the slots of all sources in the set, asked for together.
template <int kRanks>
__device__ __forceinline__ bool receive(const DeviceComm& comm, uint4 (&v)[kRanks],
    uint32_t sources, char* slots, uint64_t slot, uint64_t q, uint32_t epoch) {
  SpinState spin;
  while (true) {
#pragma unroll
    for (int r = 0; r < kRanks; ++r) {
      if ((sources >> r & 1U) != 0) {
        v[r] = load_relaxed(
            reinterpret_cast<const uint4*>(slots + slot_among<kRanks>(comm.rank, r) * slot) + q);
      }
    }
    uint32_t missing = 0;
#pragma unroll
    for (int r = 0; r < kRanks; ++r) {
      if ((sources >> r & 1U) != 0 && !is_there(v[r])) missing |= 1U << r;
    }
    if (missing == 0) break;
    if (!keep_waiting(comm, spin, __ffs(static_cast<int>(missing)) - 1, blockIdx.x, epoch, 0)) {
      return false;
    }
  }
  return true;
}

// After receive(), when the result is on its way.
template <int kRanks>
__device__ __forceinline__ void free_cells(
    int me, uint32_t sources, char* slots, uint64_t slot, uint64_t q) {
#pragma unroll
  for (int r = 0; r < kRanks; ++r) {
    if ((sources >> r & 1U) != 0) {
      free_cell(reinterpret_cast<uint4*>(slots + slot_among<kRanks>(me, r) * slot) + q);
    }
  }
}

// A token from this thread to that of every other rank, or of ranks `from`, `from` +
// `step` and so on, and from it. Not inlined, for its registers.
static __device__ __noinline__ bool exchange_token(const CollectiveArgs& args, uint64_t slots,
    uint64_t slot, uint64_t q, uint32_t epoch, int from = 0, int step = 1) {
  const DeviceComm& comm = args.comm;
  const uint4 token = sendable(token_of(args));
  const auto cell = [&](int owner, int source) {
    return reinterpret_cast<uint4*>(
               comm.control[owner] + slots + slot_among<kMaxRanks>(owner, source) * slot) +
           q;
  };
  for (int p = from; p < comm.size; p += step) {
    if (p != comm.rank) store_relaxed(cell(p, comm.rank), token);
  }
  for (int p = from; p < comm.size; p += step) {
    if (p == comm.rank) continue;
    SpinState spin;
    uint4 theirs;
    while (!is_there(theirs = load_relaxed(cell(comm.rank, p)))) {
      if (!keep_waiting(comm, spin, p, blockIdx.x, epoch, 0)) return false;
    }
    free_cell(cell(comm.rank, p));
    if (!check_token(comm, p, theirs, token)) return false;
  }
  return true;
}
// By the warp of the first block that begins with thread `first`,
// whose lanes have some ranks each, in the last pack of a slot:
// behind a block barrier all have come, and mean the same call.
__device__ __forceinline__ bool exchange_tokens(
    const CollectiveArgs& args, uint64_t slots, uint64_t slot, uint32_t epoch, uint32_t first = 0) {
  const uint32_t lanes = blockDim.x - first < kWarp ? blockDim.x - first : kWarp;
  const uint32_t lane = threadIdx.x - first;
  if (blockIdx.x != 0 || lane >= lanes) return true;
  return exchange_token(
      args, slots, slot, slot / kPack - 1, epoch, static_cast<int>(lane), static_cast<int>(lanes));
}
}  // namespace symm::cuda
