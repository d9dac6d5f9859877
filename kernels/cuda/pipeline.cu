// SPDX-License-Identifier: Apache-2.0
//
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
        if (r == s.me)
          v[u][r] = load_pack(send + part.at, part.bytes, at);
        else
          v[u][r] = reinterpret_cast<const uint4*>(s.stage(s.me, 0, now, r))[at];
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

// Where all operands are memory of the group, no scratch is in the way: the owner of a slice loads it from all ranks and stores
// the result to all that want it. As two blocks of a work group, both of which do this. Not inlined, so that it has the registers
// to itself.
template <class Arithmetic, int kRanks>
__device__ __noinline__ bool combine_at_once(const CollectiveArgs& args, const Operands& at, uint32_t index, uint32_t role,
                                             uint32_t call) {
  const WorkGroup s(args, Arithmetic::template ranks<kRanks>(args.comm), index);
  const uint32_t block = 2 * index + role;
  const auto all = 2 * static_cast<uint32_t>(args.work_groups);
  const uint32_t blocks = all < static_cast<uint32_t>(args.direct_blocks) ? all : static_cast<uint32_t>(args.direct_blocks);
  for (int p = 0; p < s.n; ++p) {
    if (at.send[p] == nullptr || (s.collects(p) && at.recv[p] == nullptr)) return false;
  }
  const bool local = s.collective == Collective::reduce_scatter;  // the result is for me alone, at the start of recv
  const auto n = static_cast<uint64_t>(s.n);
  const auto me = static_cast<uint64_t>(s.me);
  const uint64_t packs = packs_of(args.unit);
  const uint64_t each = local ? packs : (packs + n - 1) / n;
  const uint64_t begin = local || packs < me * each ? 0 : me * each;
  const uint64_t end = local ? packs : packs < me * each ? 0 : packs - begin < each ? packs : begin + each;
  const uint64_t offset = local ? me * args.unit : 0;
  const int first = s.first_of(role);
  constexpr uint32_t kAtOnce = kRanks <= 2 ? 2 : 1;
  const uint64_t stride = uint64_t{blocks} * blockDim.x;
  for (uint64_t q = block < blocks ? begin + block * blockDim.x + threadIdx.x : end; q < end; q += kAtOnce * stride) {
    uint4 v[kAtOnce][kRanks];
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
#pragma unroll
      for (int r = 0; r < kRanks; ++r) {
        if (q + u * stride < end && r < s.n) v[u][r] = load_pack(at.send[r] + offset, args.unit, q + u * stride);
      }
    }
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint64_t here = q + u * stride;
      if (here >= end) continue;
      const uint4 result = Arithmetic::run(v[u], s.n, args);
      if (local) store_pack(reinterpret_cast<char*>(args.recv), args.unit, here, result);
      for (int d = 0; d < s.n && !local; ++d) {
        const int p = d == 0 ? s.me : s.another(d - 1, first);
        if (s.collects(p)) store_pack(at.recv[p], args.unit, here, result);
      }
    }
  }
  // Nobody reads my send any more, and my recv is complete; and all blocks have read what they were told.
  s.announce([&](ControlWords::FromPeers& words) -> uint32_t& { return words.finished[s.index][role][s.me]; }, call);
  s.await(s.mine.from_peers.finished[s.index][role], call, s.everybody());
  return true;
}

template <class Arithmetic, int kRanks>
__device__ __forceinline__ void run(const CollectiveArgs& args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready
  const uint32_t roles = roles_of(args);
  const WorkGroup s(args, Arithmetic::template ranks<kRanks>(args.comm), blockIdx.x / roles);
  symm::cuda::run(
      s, blockIdx.x % roles,
      [&](const Operands& at, uint32_t role, uint32_t call) {
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
