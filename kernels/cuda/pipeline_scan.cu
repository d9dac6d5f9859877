// The pipeline (pipeline.cuh) of scans. The owner of a slice combines it once, from rank 0 on, and
// on the way stores to each rank what the ranks up to it give, or in an exscan those before it: so
// links carry what an all-reduce has them carry, and no rank waits for the result of another.
#include "kernels/cuda/neutral.cuh"
#include "kernels/cuda/pipeline.cuh"
#include "kernels/cuda/prefixes.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
// The place of rank `r` among the destinations of a chunk, where a block begins with number `first`
// of the other ranks: the inverse of WorkGroup::another().
__device__ __forceinline__ int place_of(const WorkGroup& s, int r, int first) {
  if (r == s.me) return 0;
  const int d = r > s.me ? r - s.me - 1 : r - s.me - 1 + s.n;
  return 1 + (d >= first ? d - first : d - first + (s.n - 1));
}

// Makes the results of packs first .. end-1 of a chunk. kWhole: all packs are whole and aligned, so
// that no question is asked for each.
template <bool kWhole>
__device__ __forceinline__ void scan_packs(const WorkGroup& s, const Operands& at, const char* send,
    const char* slots, uint32_t bytes, uint32_t first, uint32_t end, int step) {
  const auto dtype = static_cast<DType>(s.args.dtype);
  const auto op = static_cast<Op>(s.args.op);
  const bool exclusive = s.collective == Collective::exscan;
  const int first_of_others = s.first_of(static_cast<uint32_t>(step));

  for (uint32_t q = first + threadIdx.x; q < end; q += blockDim.x) {
    uint4 v[kRoom];
#pragma unroll 4
    for (int r = 0; r < s.n; ++r) {
      const char* const from = r == s.me ? send : slots + slot_among<kRoom>(s.me, r) * s.args.tile;
      v[r] = kWhole ? reinterpret_cast<const uint4*>(from)[q] : load_pack(from, bytes, q);
    }
    make_prefixes(v, s.n, dtype, op);

#pragma unroll 1
    for (int r = 0; r < s.n; ++r) {
      char* const to = at.to[place_of(s, r, first_of_others)];
      uint4 result = v[r];
      if (exclusive) result = r == 0 ? neutral_pack(dtype, op) : v[r - 1];
      if constexpr (kWhole) {
        reinterpret_cast<uint4*>(to)[q] = result;
      } else {
        store_pack(to, bytes, q, result);
      }
    }
  }
}

// Makes the results of chunk i, in the step behind that in which the chunk was pushed.
__device__ __forceinline__ void scan_chunk(const WorkGroup& s, const Operands& at, uint32_t i) {
  const WorkGroup::Chunk chunk = s.chunk(s.me, i);
  const char* send = reinterpret_cast<const char*>(s.args.send) + chunk.at;
  const char* slots = s.chunk_slot(s.me, 0, i, s.me == 0 ? 1 : 0);
  bool aligned = is_aligned(send);
  for (int d = 0; d < s.n; ++d) {
    aligned = aligned && is_aligned(at.to[d]);
  }

  const uint32_t whole = aligned ? chunk.bytes / kPack : 0;
  const int step = static_cast<int>(i) + 1;
  scan_packs<true>(s, at, send, slots, chunk.bytes, 0, whole, step);
  scan_packs<false>(s, at, send, slots, chunk.bytes, whole, packs_of(chunk.bytes), step);
}

__device__ __forceinline__ void run(const CollectiveArgs& args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready

  const WorkGroup s(args, args.comm.size, false, true);
  symm::cuda::run(
      s, [](const Operands&) { return false; },
      [&](const Operands&, uint32_t i) { push_to_owners(s, i); },
      [&](const Operands& at, uint32_t i) { scan_chunk(s, at, i); });
}
}  // namespace

extern "C" __global__ void __launch_bounds__(1024, 1)
    SYMM_KERNEL(pipeline_scan)(const __grid_constant__ CollectiveArgs a) {
  run(a);
}
