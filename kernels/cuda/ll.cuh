// LL: each store of 16 bytes carries two pairs of a word of data and a flag, and a pair arrives
// whole. It takes any data and needs no fence. A rank has a slot for each source in each half
// (epoch.cuh); two cells hold a pack.
#pragma once

#include "kernels/cuda/epoch.cuh"
#include "kernels/cuda/wait.cuh"

namespace symm::cuda {
// What a kernel is compiled for.
enum class Work { moves, reduces, scans };

// Flags are never 0, which free cells hold.
__device__ __forceinline__ uint32_t flag_of(uint32_t epoch) { return epoch | 0x80000000U; }

// The offset of the slots of an epoch in a control block, by source.
__device__ __forceinline__ uint64_t slots_of(const DeviceComm& comm, uint32_t epoch) {
  return comm.ll +
         static_cast<uint64_t>((epoch & 1U) * static_cast<uint32_t>(comm.size)) * comm.ll_slot;
}

// The two cells of a pack are as far apart as a warp has threads, so that each store of a warp
// fills whole lines.
inline constexpr uint32_t kApart = kLlPacks;
__device__ __forceinline__ uint32_t cell_of(uint32_t q) {
  return q / kApart * (2 * kApart) + q % kApart;
}

__device__ __forceinline__ void send_pack(uint64_t to, uint32_t q, uint4 v, uint32_t flag) {
  auto* cells = reinterpret_cast<uint4*>(to) + cell_of(q);
  store_pairs(cells, {v.x, flag, v.y, flag});
  store_pairs(cells + kApart, {v.z, flag, v.w, flag});
}

__device__ __forceinline__ bool is_there(uint4 cell, uint32_t flag) {
  return cell.y == flag && cell.w == flag;
}

// The last pack of a slot is for tokens.
__device__ __forceinline__ uint32_t token_pack(const DeviceComm& comm) {
  return static_cast<uint32_t>(comm.ll_slot / 32) - 1;
}

__device__ __forceinline__ int lowest(uint32_t ranks) { return __ffs(static_cast<int>(ranks)) - 1; }

// Receives pack q from the slots of `sources`, in which bit r is the slot of v[r]. A wait that ends
// in trouble names the rank blamed(missing), where `missing` are the sources whose cells are
// missing; it is asked as seldom as a wait looks around.
template <int kRanks, class Blamed>
__device__ __forceinline__ bool receive_blaming(const DeviceComm& comm, uint4 (&v)[kRanks],
    uint32_t sources, uint64_t slots, uint32_t q, uint32_t epoch, const Blamed& blamed) {
  SpinState spin;
  const uint32_t flag = flag_of(epoch);
  const uint64_t first_cells = slots + uint64_t{cell_of(q)} * kPack;
  const auto cells_of = [&](int r) {
    return reinterpret_cast<uint4*>(first_cells + static_cast<uint64_t>(r) * comm.ll_slot);
  };

  // The number of sources that registers hold.
  constexpr int kAtOnce = kRanks < 8 ? kRanks : 8;
#pragma unroll
  for (int first = 0; first < kRanks; first += kAtOnce) {
    while (true) {
      uint4 a[kAtOnce];
      uint4 b[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if ((sources >> (first + i) & 1U) == 0) continue;
        const auto* cells = cells_of(first + i);
        a[i] = load_pairs(cells);
        b[i] = load_pairs(cells + kApart);
      }

      uint32_t missing = 0;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if ((sources >> (first + i) & 1U) == 0) continue;
        if (is_there(a[i], flag) && is_there(b[i], flag)) {
          v[first + i] = {a[i].x, a[i].z, b[i].x, b[i].z};
        } else {
          missing |= 1U << (first + i);
        }
      }
      if (missing == 0) break;

      if ((++spin.looks & 1023U) != 0) continue;
      spin.deadline = check_abort(comm, spin.deadline, blamed(missing), blockIdx.x, epoch, 0);
      if (spin.deadline == kLeave) return false;
    }
  }

  // Frees the cells: a flag that comes round again after 2^31 calls must not find an old one.
#pragma unroll
  for (int r = 0; r < kRanks; ++r) {
    if ((sources >> r & 1U) == 0) continue;
    auto* cells = cells_of(r);
    store_pairs(cells, {0, 0, 0, 0});
    store_pairs(cells + kApart, {0, 0, 0, 0});
  }
  return true;
}

// Receives like receive_blaming(); bit r of `sources` is rank `from` + r, and the first rank
// whose cells are missing is blamed.
template <int kRanks>
__device__ __forceinline__ bool receive(const DeviceComm& comm, uint4 (&v)[kRanks],
    uint32_t sources, uint64_t slots, uint32_t q, uint32_t epoch, int from = 0) {
  return receive_blaming(comm, v, sources, slots, q, epoch,
      [from](uint32_t missing) { return from + lowest(missing); });
}
}  // namespace symm::cuda
