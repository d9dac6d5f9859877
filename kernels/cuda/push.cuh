// Data that is its own flag.
//
// Definitions. A cell has room for a pack. A free cell holds four words of all ones, kFree, which
// is a NaN in every float format of at most 32 bits.
//
// Invariants.
//   No word that is sent is kFree: where an operand contains it, another NaN is sent in its place.
//   The payload of a NaN is unspecified, so this changes no result; zeros of both signs,
//   infinities and everything else arrive as they are.
//   A cell is free before its source stores to it: the receiver frees it when it has read it, and
//   epoch.cuh says why that is soon enough.
//
// So a receiver polls each of the four words of a pack until none is kFree; nothing promises that
// 16 bytes arrive together.
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

// Receives pack q from the slots of all `sources`, which are polled together.
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

// Frees what receive() has read. Called when the result is on its way.
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

// Sends a token from this thread to the same thread of every other rank, and receives its token;
// or only with ranks `from`, `from` + `step` and so on. Not inlined, for its registers.
static __device__ __noinline__ bool exchange_token(const CollectiveArgs& args, uint64_t slots,
    uint64_t slot, uint64_t q, uint32_t epoch, int from = 0, int step = 1) {
  const DeviceComm& comm = args.comm;
  const uint4 token = sendable(token_of(args));
  const auto cell = [&](int owner, int source) {
    return reinterpret_cast<uint4*>(
               comm.control[owner] + slots + slot_among<kRoom>(owner, source) * slot) +
           q;
  };

  for (int p = from; p < comm.size; p += step) {
    if (p != comm.rank) store_relaxed(cell(p, comm.rank), token);
  }

  for (int p = from; p < comm.size; p += step) {
    if (p == comm.rank) continue;
    SpinState spin;
    uint4 theirs;
    // The condition assigns: to load before the loop and at its end changes registers of kernels.
    while (!is_there(theirs = load_relaxed(cell(comm.rank, p)))) {
      if (!keep_waiting(comm, spin, p, blockIdx.x, epoch, 0)) return false;
    }
    free_cell(cell(comm.rank, p));
    if (!check_token(comm, p, theirs, token)) return false;
  }
  return true;
}

// Exchanges tokens with all ranks, in the last pack of a slot, by the warp of the first block
// that begins with thread `first`; each of its lanes has some of the ranks. Behind a block
// barrier all ranks have come, and make the same call.
__device__ __forceinline__ bool exchange_tokens(
    const CollectiveArgs& args, uint64_t slots, uint64_t slot, uint32_t epoch, uint32_t first = 0) {
  const uint32_t lanes = blockDim.x - first < kWarp ? blockDim.x - first : kWarp;
  const uint32_t lane = threadIdx.x - first;
  if (blockIdx.x != 0 || lane >= lanes) return true;
  return exchange_token(
      args, slots, slot, slot / kPack - 1, epoch, static_cast<int>(lane), static_cast<int>(lanes));
}
}  // namespace symm::cuda
