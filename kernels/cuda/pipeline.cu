// The pipeline of collectives that combine: all-reduce, reduce-scatter, reduce.
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/pipeline.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
template <class Arithmetic, int kRanks>
__device__ __forceinline__ void combine_tile(const WorkGroup& s, const Operands& to, uint32_t j, uint32_t now) {
  const CollectiveArgs& args = s.args;
  const auto* send = reinterpret_cast<const char*>(args.send);
  auto* recv = reinterpret_cast<char*>(args.recv);
  const WorkGroup::Range part = s.slice(j, s.me);
  const uint32_t packs = packs_of(part.bytes);
  const bool local = s.collective == Collective::reduce_scatter;  // the result is for me alone, at the start of recv
  const uint64_t place = local ? part.at - static_cast<uint64_t>(s.me) * args.unit : s.place(part, s.me);
  const int first = s.first_of(j);
  // As many packs at once as the registers hold, so that loads of several are under way.
  constexpr uint32_t kAtOnce = kRanks <= 2 ? 2 : 1;
  for (uint32_t q = threadIdx.x; q < packs; q += kAtOnce * blockDim.x) {
    uint4 v[kAtOnce][kRanks];
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint32_t at = q + u * blockDim.x;
      if (at >= packs) continue;
#pragma unroll
      for (int r = 0; r < kRanks; ++r) {
        if (r >= s.n) continue;
        if (r == s.me) v[u][r] = load_pack(send + part.at, part.bytes, at);
        else v[u][r] = reinterpret_cast<const uint4*>(s.stage(s.me, 0, now, r))[at];
      }
    }
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint32_t at = q + u * blockDim.x;
      if (at >= packs) continue;
      const uint4 result = Arithmetic::run(v[u], s.n, args);
      if (local) {
        store_pack(recv + place, part.bytes, at, result);
        continue;
      }
#pragma unroll 1
      for (int d = 0; d < s.n; ++d) {
        const int p = d == 0 ? s.me : s.another(d - 1, first);
        if (!s.collects(p)) continue;
        if (p == s.me) store_pack(recv + place, part.bytes, at, result);
        else if (to.recv[p] != nullptr) store_pack(to.recv[p] + place, part.bytes, at, result);
        else reinterpret_cast<uint4*>(s.stage(p, 1, now, s.me))[at] = result;
      }
    }
  }
}

// Packs q, q + stride, ... of a message, from where they lie to where they are wanted. kWhole: all of them are, so that none need
// be asked, and registers are left for several at a time.
template <class Arithmetic, int kRanks, bool kWhole>
__device__ __forceinline__ void combine_packs(const WorkGroup& s, const Operands& at, uint64_t q, uint64_t end, uint64_t stride) {
  constexpr uint32_t kAtOnce = kWhole && kRanks <= 2 ? 2 : 1;
  for (; q < end; q += kAtOnce * stride) {
    uint4 v[kAtOnce][kRanks];
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint64_t here = q + u * stride;
      if (here >= end) continue;
#pragma unroll
      for (int r = 0; r < kRanks; ++r) {
        if (r >= s.n) continue;
        v[u][r] = kWhole ? reinterpret_cast<const uint4*>(at.send[r])[here] : load_pack(at.send[r], s.args.unit, here);
      }
    }
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint64_t here = q + u * stride;
      if (here >= end) continue;
      const uint4 result = Arithmetic::run(v[u], s.n, s.args);
      for (int d = 0; d < s.n; ++d) {
        char* to = at.recv[d];
        if (to == nullptr) continue;
        if constexpr (kWhole) reinterpret_cast<uint4*>(to)[here] = result;
        else store_pack(to, s.args.unit, here, result);
      }
    }
  }
}

// Where all operands are memory of the group, no scratch is in the way: the owner of a slice loads it from all ranks and stores
// the result to all that want it. By two or three blocks of a work group. Not inlined, so that it has the registers
// to itself.
template <class Arithmetic, int kRanks>
__device__ __noinline__ bool combine_at_once(
    const CollectiveArgs& args, Operands& at, uint32_t index, uint32_t role, uint32_t call) {
  const WorkGroup s(args, Arithmetic::template ranks<kRanks>(args.comm), index);
  const bool local = s.collective == Collective::reduce_scatter;  // the result is for me alone, at the start of recv
  // Of slices, which are loaded and stored over links, two blocks are more than enough.
  const uint32_t helpers = local ? 3 : 2;
  const uint32_t block = helpers * index + role;
  const uint32_t all = helpers * static_cast<uint32_t>(args.work_groups);
  const uint32_t blocks = all < static_cast<uint32_t>(args.direct_blocks) ? all : static_cast<uint32_t>(args.direct_blocks);
  bool can = blocks != 0;
  for (int p = 0; p < s.n; ++p) can = can && at.send[p] != nullptr && (!s.collects(p) || at.recv[p] != nullptr);
  if (!is_at_once(s, can, local, role, call)) return false;
  __syncthreads();
  const auto n = static_cast<uint64_t>(s.n);
  const auto me = static_cast<uint64_t>(s.me);
  const int p = static_cast<int>(threadIdx.x);
  if (p < s.n && local) {
    at.send[p] += me * args.unit;
    at.recv[p] = p == s.me ? reinterpret_cast<char*>(args.recv) : nullptr;
  } else if (p < s.n && !s.collects(p)) {
    at.recv[p] = nullptr;
  }
  __syncthreads();
  const uint64_t packs = packs_of(args.unit);
  const uint64_t each = local ? packs : (packs + n - 1) / n;
  const uint64_t begin = local || packs < me * each ? 0 : me * each;
  const uint64_t end = local ? packs : packs < me * each ? 0 : packs - begin < each ? packs : begin + each;
  bool aligned = true;
  for (int r = 0; r < s.n; ++r) aligned = aligned && is_aligned(at.send[r]) && is_aligned(at.recv[r]);
  const uint64_t complete = args.unit / kPack;
  const uint64_t whole = !aligned || complete < begin ? begin : complete < end ? complete : end;
  if (block < blocks) {
    const uint64_t mine = block * blockDim.x + threadIdx.x;
    const uint64_t stride = uint64_t{blocks} * blockDim.x;
    combine_packs<Arithmetic, kRanks, true>(s, at, begin + mine, whole, stride);
    combine_packs<Arithmetic, kRanks, false>(s, at, whole + mine, end, stride);
  }
  finish_at_once(s, role, call);
  return true;
}

template <class Arithmetic, int kRanks> __device__ __forceinline__ void run(const CollectiveArgs& args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready
  const WorkGroup s(args, Arithmetic::template ranks<kRanks>(args.comm), blockIdx.x / kRoles);
  symm::cuda::run(
      s, blockIdx.x % kRoles,
      [&](Operands& at, uint32_t role, uint32_t call) {
        return combine_at_once<Arithmetic, kRanks>(args, at, s.index, role, call);
      },
      [&](const Operands&, uint32_t base) { scatter_to_slots(s, base); },
      [&](const Operands& to) {
        own(s, to, false, false, [&](uint32_t j, uint32_t now) { combine_tile<Arithmetic, kRanks>(s, to, j, now); });
      });
}
}  // namespace

// Registers for one block of 1024, or two of 512, on each multiprocessor, as Facts::max_blocks has it.
#define SYMM_PIPELINE(name, arithmetic, ranks)                                   \
  extern "C" __global__ void __launch_bounds__(1024, 1)                          \
      symm_pipeline_##name##_##ranks(const __grid_constant__ CollectiveArgs a) { \
    run<arithmetic, ranks>(a);                                                   \
  }
SYMM_FOR_ARITHMETICS(SYMM_PIPELINE)
