// The pipeline (pipeline.cuh) of collectives that combine: all-reduce, reduce-scatter, reduce.
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/pipeline.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
// Combines packs first .. end-1 of a chunk. kWhole: all packs are whole and aligned, so that no
// question is asked for each. Then registers are left for several packs at a time, whose loads
// are under way together.
template <class Arithmetic, int kRanks, bool kWhole>
__device__ __forceinline__ void combine_packs(const WorkGroup& s, const Operands& at,
    const char* send, const char* slots, uint32_t bytes, uint32_t first, uint32_t end) {
  constexpr uint32_t kAtOnce = kWhole && kRanks <= 2 ? 2 : 1;

  for (uint32_t q = first + threadIdx.x; q < end; q += kAtOnce * blockDim.x) {
    uint4 v[kAtOnce][kRanks];
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint32_t here = q + u * blockDim.x;
      if (here >= end) continue;
#pragma unroll
      for (int r = 0; r < kRanks; ++r) {
        if (r >= s.n) continue;
        const char* const from =
            r == s.me ? send : slots + slot_among<kRanks>(s.me, r) * s.args.tile;
        v[u][r] =
            kWhole ? reinterpret_cast<const uint4*>(from)[here] : load_pack(from, bytes, here);
      }
    }

#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint32_t here = q + u * blockDim.x;
      if (here >= end) continue;
      const uint4 result = Arithmetic::run(v[u], s.n, s.args);

#pragma unroll 1
      for (int d = 0; d < s.n; ++d) {
        char* const to = at.to[d];
        if (to == nullptr) continue;
        if constexpr (kWhole) {
          reinterpret_cast<uint4*>(to)[here] = result;
        } else {
          store_pack(to, bytes, here, result);
        }
      }
    }
  }
}

// Does the same in a large group, whose operands are not all held in registers.
template <class Arithmetic>
__device__ __forceinline__ void combine_loaded_packs(const WorkGroup& s, const Operands& at,
    const char* send, const char* slots, uint32_t bytes, uint32_t first, uint32_t end) {
  for (uint32_t q = first + threadIdx.x; q < end; q += blockDim.x) {
    const auto load = [&](int r) {
      const char* const from = r == s.me ? send : slots + slot_among<kRoom>(s.me, r) * s.args.tile;
      return load_pack(from, bytes, q);
    };
    const uint4 result = Arithmetic::run_loaded(load, s.n, s.args);

#pragma unroll 1
    for (int d = 0; d < s.n; ++d) {
      if (at.to[d] != nullptr) store_pack(at.to[d], bytes, q, result);
    }
  }
}

template <class Arithmetic, int kRanks>
__device__ __forceinline__ void combine(const WorkGroup& s, const Operands& at, uint32_t i) {
  const WorkGroup::Chunk chunk = s.chunk(s.me, i);
  const char* send = reinterpret_cast<const char*>(s.args.send) + s.in_send(s.me) + chunk.at;
  const char* slots = s.chunk_slot(s.me, 0, i, s.me == 0 ? 1 : 0);
  if constexpr (kRanks > kSmallRanks) {
    combine_loaded_packs<Arithmetic>(s, at, send, slots, chunk.bytes, 0, packs_of(chunk.bytes));
  } else {
    bool aligned = is_aligned(send);
    for (int d = 0; d < s.n; ++d) {
      aligned = aligned && is_aligned(at.to[d]);
    }

    const uint32_t whole = aligned ? chunk.bytes / kPack : 0;
    combine_packs<Arithmetic, kRanks, true>(s, at, send, slots, chunk.bytes, 0, whole);
    combine_packs<Arithmetic, kRanks, false>(
        s, at, send, slots, chunk.bytes, whole, packs_of(chunk.bytes));
  }
}

// Kernels of large groups are for any number of ranks.
template <class Arithmetic, int kRanks>
__device__ __forceinline__ int ranks_of(const DeviceComm& comm) {
  if constexpr (kRanks > kSmallRanks) {
    return comm.size;
  } else {
    return Arithmetic::template ranks<kRanks>(comm);
  }
}

template <class Arithmetic, int kRanks>
__device__ __forceinline__ void run(const CollectiveArgs& args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready

  const WorkGroup s(args, ranks_of<Arithmetic, kRanks>(args.comm), false);
  symm::cuda::run(
      s, [](const Operands&) { return false; },
      [&](const Operands&, uint32_t i) { push_to_owners(s, i); },
      [&](const Operands& at, uint32_t i) { combine<Arithmetic, kRanks>(s, at, i); });
}
}  // namespace

// Registers are for one block of 1024 threads, or two of 512, on each multiprocessor, as
// Facts::max_blocks promises (plan.hpp).
#ifdef SYMM_LARGE_GROUPS
#define SYMM_PIPELINE(name, arithmetic)                                      \
  extern "C" __global__ void __launch_bounds__(1024, 1)                      \
      symm_large_pipeline_##name(const __grid_constant__ CollectiveArgs a) { \
    run<arithmetic, kRoom>(a);                                               \
  }
SYMM_FOR_ARITHMETICS_ONLY(SYMM_PIPELINE)
#else
#define SYMM_PIPELINE(name, arithmetic, ranks)                                   \
  extern "C" __global__ void __launch_bounds__(1024, 1)                          \
      symm_pipeline_##name##_##ranks(const __grid_constant__ CollectiveArgs a) { \
    run<arithmetic, ranks>(a);                                                   \
  }
SYMM_FOR_ARITHMETICS(SYMM_PIPELINE)
#endif
