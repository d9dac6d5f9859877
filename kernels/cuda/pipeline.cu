// SPDX-License-Identifier: Apache-2.0
//
// The pipeline of collectives that combine: all-reduce, reduce-scatter, reduce.
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/pipeline.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {

template <class Arithmetic, int kRanks>
__device__ __forceinline__ void combine_tile(const WorkGroup& s, const Destinations& to, uint64_t j, uint32_t now) {
  const CollectiveArgs& args = s.args;
  const auto* send = reinterpret_cast<const char*>(args.send);
  auto* recv = reinterpret_cast<char*>(args.recv);
  const WorkGroup::Range part = s.slice(j, s.me);
  const uint64_t packs = packs_of(part.bytes);
  const bool local = s.collective == Collective::reduce_scatter;  // the result is for me alone, at the start of recv
  const uint64_t place = local ? part.at - static_cast<uint64_t>(s.me) * args.unit : s.place(part, s.me);
  const int first = s.first_of(j);
  // As many packs at once as the registers hold, so that loads of several are under way.
  constexpr uint32_t kAtOnce = kRanks <= 2 ? 4 : kRanks <= 4 ? 2 : 1;
  for (uint64_t q = threadIdx.x; q < packs; q += kAtOnce * blockDim.x) {
    uint4 v[kAtOnce][kRanks];
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint64_t at = q + u * blockDim.x;
      if (at >= packs) continue;
#pragma unroll
      for (int r = 0; r < kRanks; ++r) {
        if (r >= s.n) continue;
        if (r == s.me)
          v[u][r] = load_pack(send + part.at, part.bytes, at);
        else
          v[u][r] = reinterpret_cast<const uint4*>(s.stage(s.me, 0, now, r))[at];
      }
    }
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint64_t at = q + u * blockDim.x;
      if (at >= packs) continue;
      const uint4 result = Arithmetic::run(v[u], s.n, args);
      if (local) {
        store_pack(recv + place, part.bytes, at, result);
        continue;
      }
#pragma unroll
      for (int d = 0; d < kRanks; ++d) {
        if (d >= s.n) continue;
        const int p = d == 0 ? s.me : s.another(d - 1, first);
        if (!s.collects(p)) continue;
        if (p == s.me)
          store_pack(recv + place, part.bytes, at, result);
        else if (to.recv[p] != nullptr)
          store_pack(to.recv[p] + place, part.bytes, at, result);
        else
          reinterpret_cast<uint4*>(s.stage(p, 1, now, s.me))[at] = result;
      }
    }
  }
}

template <class Arithmetic, int kRanks>
__device__ __forceinline__ void run(const CollectiveArgs& args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready
  const uint32_t roles = roles_of(args);
  const WorkGroup work_group(args, kRanks <= 8 ? kRanks : args.comm.size, blockIdx.x / roles);
  symm::cuda::run(
      work_group, blockIdx.x % roles, [](const WorkGroup& s, uint32_t base) { scatter_to_slots(s, base); },
      [](const WorkGroup& s) {
        __shared__ Destinations to;
        own(s, to, false, false,
            [&](const Destinations& there, uint64_t j, uint32_t now) { combine_tile<Arithmetic, kRanks>(s, there, j, now); });
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
