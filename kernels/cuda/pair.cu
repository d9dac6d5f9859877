// A large all-reduce, reduce-scatter or reduce of two ranks, by stores alone, of which links carry more than of loads and stores
// together. Each owns half of the message, or the root all of it, and each block a part of that, in pieces of the size of a slot
// at most. In step i a block
//   1. stores piece i of what the peer owns into the peer's first stage,
//   2. waits for the peer's step i - 1,
//   3. combines piece i - 1 of its own, which came in that, and of an all-reduce stores the result into the peer's recv, or where
//      that is private memory into its second stage,
//   4. tells the peer of both,
//   5. and brings result i - 2, which came with it too, from the second stage to recv.
// So links have work while a block waits. Slots are used again after four steps: who stores in step i has heard of the peer's
// step i - 2, before which the peer combined what had come in step i - 4, and had brought the results that came in step i - 4.
// Operands may be private memory, and recv may be send.
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/pipeline.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
template <class Arithmetic>
__device__ __forceinline__ void combine(
    const CollectiveArgs& args, const char* send, char* recv, const char* theirs, char* there, uint32_t bytes, int me) {
  const uint32_t packs = packs_of(bytes);
  constexpr uint32_t kAtOnce = 2;
  for (uint32_t q = threadIdx.x; q < packs; q += kAtOnce * blockDim.x) {
    uint4 v[kAtOnce][2];
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint32_t at = q + u * blockDim.x;
      if (at >= packs) continue;
      const uint4 mine = load_pack(send, bytes, at);
      const uint4 other = reinterpret_cast<const uint4*>(theirs)[at];
      v[u][0] = me == 0 ? mine : other;
      v[u][1] = me == 0 ? other : mine;
    }
#pragma unroll
    for (uint32_t u = 0; u < kAtOnce; ++u) {
      const uint32_t at = q + u * blockDim.x;
      if (at >= packs) continue;
      const uint4 result = Arithmetic::run(v[u], 2, args);
      if (there != nullptr) store_pack(there, bytes, at, result);
      store_pack(recv, bytes, at, result);
    }
  }
}

template <class Arithmetic> __device__ __forceinline__ void run(const CollectiveArgs& args) {
  SYMM_SHARED(Operands, operands);
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready
  const WorkGroup s(args, 2, blockIdx.x);
  const int peer = 1 - s.me;
  const uint32_t call = s.mine.pipeline_calls[s.index] + 1;
  const uint32_t base = s.mine.pair_steps[s.index];
  tell_entries(s, call);
  if (__syncthreads_and(may_use_stages(s.comm, s.index)) == 0 || !read_entries(s, operands, call)) return;
  // Of a reduce-scatter what a rank owns lies apart.
  if (threadIdx.x < 2) {
    const uint64_t apart = s.collective == Collective::reduce_scatter ? threadIdx.x * args.unit : 0;
    operands.send[threadIdx.x] = reinterpret_cast<const char*>(args.send) + apart;
    s.mine.pipeline_calls[s.index] = call;
  }
  __syncthreads();
  auto* recv = reinterpret_cast<char*>(args.recv);
  const auto pieces = static_cast<uint32_t>(args.tiles);
  const bool returns = s.collective == Collective::allreduce;
  const bool to_root = s.collective == Collective::reduce;
  // Piece i of what a rank owns; beyond the end of the message it is empty.
  struct Piece {
    uint64_t at;
    uint32_t bytes;
  };
  const auto piece_of = [&](int owner, uint32_t i) -> Piece {
    if (to_root && owner != args.root) return {0, 0};
    const auto half = static_cast<uint64_t>(returns ? owner : 0);
    const uint64_t at = ((half * gridDim.x + s.index) * pieces + i) * args.tile;
    const uint64_t left = at < args.unit ? args.unit - at : 0;
    return {at, static_cast<uint32_t>(left < args.tile ? left : args.tile)};
  };
  const auto slot_of = [&](int rank, int stage, uint32_t i) {
    return reinterpret_cast<char*>(
        s.comm.stages[rank] + s.comm.stage[stage] + (kSlots * static_cast<uint64_t>(s.index) + (i & (kSlots - 1))) * args.tile);
  };
  for (uint32_t i = 0; i <= pieces + 1; ++i) {
    if (i < pieces) {
      const Piece its = piece_of(peer, i);
      push_part(operands.send[peer] + its.at, slot_of(peer, 0, i), its.bytes);
    }
    if (i > 0 && !s.await(s.mine.from_peers.steps[s.index], base + i, s.everybody())) return;
    if (i > 0 && i <= pieces) {
      const Piece its = piece_of(s.me, i - 1);
      char* const beyond = operands.recv[peer];
      char* const there = !returns ? nullptr : beyond != nullptr ? beyond + its.at : slot_of(peer, 1, i - 1);
      combine<Arithmetic>(args, operands.send[s.me] + its.at, recv + its.at, slot_of(s.me, 0, i - 1), there, its.bytes, s.me);
    }
    if (i <= pieces)
      s.announce([&](ControlWords::FromPeers& words) -> uint32_t& { return words.steps[s.index][s.me]; }, base + i + 1);
    if (returns && args.copies_out != 0 && i > 1) {
      const Piece its = piece_of(peer, i - 2);
      push_part(slot_of(s.me, 1, i - 2), recv + its.at, its.bytes);
    }
  }
  if (threadIdx.x == 0) s.mine.pair_steps[s.index] = base + pieces + 1;
}
}  // namespace

// Registers as in pipeline.cu.
#define SYMM_PAIR(name, arithmetic)                                                                                  \
  extern "C" __global__ void __launch_bounds__(1024, 1) symm_pair_##name(const __grid_constant__ CollectiveArgs a) { \
    run<arithmetic>(a);                                                                                              \
  }
SYMM_FOR_ARITHMETICS_ONLY(SYMM_PAIR)
