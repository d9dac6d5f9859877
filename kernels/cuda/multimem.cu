// All-reduce by multicast: the switch adds. A reducing load from a multicast address gets the sum
// over all ranks' memory; a store to it reaches all of them. In one shot every rank loads all of
// the sum into its own recv; in two shots every rank loads its slice and stores it to all. Sums
// are in f32 and rounded once, but the order is the switch's, so the bits may be others than
// everywhere else in symm.
//
// Blocks meet twice. Before the first load, so that every rank's operand is there: what came
// before the kernel on each stream has ended when the kernel starts. And after the last, so that
// no rank goes on while others load from its send or store to its recv. Block b meets the blocks
// b of the other ranks only.
#include "capi/include/symm/multimem.cuh"
#include "kernels/cuda/wait.cuh"

using namespace symm::cuda;

// Devices before 9.0 have no such instructions, and the host never launches these kernels there.
#if SYMM_HAS_MULTIMEM
namespace {
namespace multimem = symm::device::multimem;

// Sums of all types are packs of bits; how wide the elements are matters to the load only.
using LoadSum = uint4(const uint4* from);

__device__ __forceinline__ uint4 load_add_f32(const uint4* from) {
  const float4 v = multimem::load_add(reinterpret_cast<const float4*>(from));
  return {__float_as_uint(v.x), __float_as_uint(v.y), __float_as_uint(v.z), __float_as_uint(v.w)};
}

// Multicast addresses are second names of memory that was written, and will be read, by its first
// name.
__device__ __forceinline__ void fence_names() { asm volatile("fence.proxy.alias;" ::: "memory"); }

using MultimemOperands = ControlWords::FromPeers::MultimemOperands;

// Comes to where the blocks meet for the `time`-th time, and waits for the others. False: the
// kernel has to leave.
__device__ bool meet(const CollectiveArgs& args, uint32_t time, bool compare) {
  const DeviceComm& comm = args.comm;
  ControlWords& mine = words_of(comm, comm.rank);
  const int p = static_cast<int>(threadIdx.x);
  const uint32_t b = blockIdx.x;
  bool ok = true;

  fence_names();
  __syncthreads();
  if (p < comm.size && p != comm.rank) {
    ControlWords::FromPeers& there = words_of(comm, p).from_peers;
    if (compare) {
      MultimemOperands& mine_there = there.operands[b][comm.rank];
      store_relaxed(&mine_there.detail, args.detail);
      store_relaxed(&mine_there.count, args.count);
      store_relaxed(&mine_there.send_memory, args.send_memory);
      store_relaxed(&mine_there.send_offset, args.send_offset);
      store_relaxed(&mine_there.recv_memory, args.recv_memory);
      store_relaxed(&mine_there.recv_offset, args.recv_offset);
    }

    fence_system();
    store_relaxed(&there.met[b][comm.rank], time);
    ok = await_count(comm, &mine.from_peers.met[b][p], time, p, b);
    if (ok && compare) {
      const MultimemOperands& theirs = mine.from_peers.operands[b][p];
      const uint64_t detail = load_relaxed(&theirs.detail);
      const uint64_t count = load_relaxed(&theirs.count);
      if (detail != args.detail || count != args.count) {
        report(comm, WaitError::mismatch, p, b, 0, 0, detail, count, args.detail, args.count);
        ok = false;
      } else if (load_relaxed(&theirs.send_memory) != args.send_memory ||
                 load_relaxed(&theirs.send_offset) != args.send_offset ||
                 load_relaxed(&theirs.recv_memory) != args.recv_memory ||
                 load_relaxed(&theirs.recv_offset) != args.recv_offset) {
        report(comm, WaitError::other_place, p, b, 0, 0);
        ok = false;
      }
    }
  }
  ok = __syncthreads_and(ok) != 0;
  fence_names();
  return ok;
}

// Loads that are under way at a time.
inline constexpr uint32_t kAtOnce = 4;

// Stores the end of a message, which is less than a pack, to each rank's recv by its first name:
// multicast stores are of four bytes or more. The pack is loaded whole all the same, because a
// block ends at a multiple of far more than 16 bytes.
__device__ __noinline__ void store_end_to_all(const CollectiveArgs& args, uint64_t at, uint4 v) {
  const auto* table = reinterpret_cast<const MemoryEntry*>(args.comm.memories);
  for (int i = 0; i < args.comm.memory_count; ++i) {
    if (table[i].id != args.recv_memory) continue;

    for (int p = 0; p < args.comm.size; ++p) {
      store_bytes(reinterpret_cast<char*>(table[i].block[p] + args.recv_offset + at),
          static_cast<uint32_t>(args.unit - at), v);
    }
    return;
  }
  report(args.comm, WaitError::unknown_memory, args.comm.rank, blockIdx.x, 0, 0);
}

template <LoadSum load_sum>
__device__ __forceinline__ void one_shot(const CollectiveArgs& args) {
  auto* recv = reinterpret_cast<char*>(args.recv);
  const uint64_t packs = packs_of(args.unit);
  const uint64_t stride = gridDim.x * blockDim.x;

  for (uint64_t q = blockIdx.x * blockDim.x + threadIdx.x; q < packs; q += kAtOnce * stride) {
    uint4 v[kAtOnce];
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      if (q + u * stride < packs) {
        v[u] = load_sum(
            reinterpret_cast<const uint4*>(args.send_multicast + (q + u * stride) * kPack));
      }
    }
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      if (q + u * stride < packs) store_pack(recv, args.unit, q + u * stride, v[u]);
    }
  }
}

// Each pack has one thread of one rank that loads and stores it, so recv may be send.
template <LoadSum load_sum>
__device__ __forceinline__ void two_shot(const CollectiveArgs& args) {
  const uint64_t packs = packs_of(args.unit);
  const uint64_t whole = args.unit / kPack;
  const auto n = static_cast<uint64_t>(args.comm.size);
  const uint64_t per_slice = (packs + n - 1) / n;
  const uint64_t begin = static_cast<uint64_t>(args.comm.rank) * per_slice;
  const uint64_t end = begin + per_slice < packs ? begin + per_slice : packs;
  const uint64_t stride = gridDim.x * blockDim.x;

  for (uint64_t q = begin + blockIdx.x * blockDim.x + threadIdx.x; q < end; q += kAtOnce * stride) {
    uint4 v[kAtOnce];
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      if (q + u * stride < end) {
        v[u] = load_sum(
            reinterpret_cast<const uint4*>(args.send_multicast + (q + u * stride) * kPack));
      }
    }
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint64_t at = q + u * stride;
      if (at >= end) continue;

      if (at < whole) {
        multimem::store(reinterpret_cast<uint4*>(args.recv_multicast + at * kPack), v[u]);
      } else {
        store_end_to_all(args, at * kPack, v[u]);
      }
    }
  }
}

template <LoadSum load_sum, bool kTwoShots>
__device__ __forceinline__ void run(const CollectiveArgs& args) {
  symm::cuda::begin();
  if (args.comm.size == 0) return;  // a launch to make it ready

  uint32_t& met = words_of(args.comm, args.comm.rank).multimem_met[blockIdx.x];
  const uint32_t before = load_relaxed(&met);
  if (meet(args, before + 1, true)) {
    if constexpr (kTwoShots) {
      two_shot<load_sum>(args);
    } else {
      one_shot<load_sum>(args);
    }
    meet(args, before + 2, false);
  }
  // All threads have read it, since they have met.
  if (threadIdx.x == 0) met = before + 2;
}
}  // namespace

#define SYMM_RUN(load_sum, two_shots, args) run<load_sum, two_shots>(args)
#else
#define SYMM_RUN(load_sum, two_shots, args) static_cast<void>(args)
#endif

// Blocks of 512 threads are launched.
#define SYMM_MULTIMEM(name, load_sum)                                           \
  extern "C" __global__ void __launch_bounds__(512)                             \
      symm_multimem_one_shot_##name(const __grid_constant__ CollectiveArgs a) { \
    SYMM_RUN(load_sum, false, a);                                               \
  }                                                                             \
  extern "C" __global__ void __launch_bounds__(512)                             \
      symm_multimem_two_shot_##name(const __grid_constant__ CollectiveArgs a) { \
    SYMM_RUN(load_sum, true, a);                                                \
  }
SYMM_MULTIMEM(bf16, multimem::load_add_bf16)
SYMM_MULTIMEM(f16, multimem::load_add_f16)
SYMM_MULTIMEM(f32, load_add_f32)
