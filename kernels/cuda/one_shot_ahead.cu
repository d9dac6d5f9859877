// One shot (one_shot.cu) of two ranks, for longer messages: a thread sends a pack ahead of each
// pack that it combines, so links have work while it waits. In a reduce only the root receives.
// It is a kernel of its own, since small messages would pay for what it does.
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/push.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
template <class Arithmetic>
__device__ __forceinline__ void run(const CollectiveArgs& args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready

  const DeviceComm& comm = args.comm;
  const int me = comm.rank;
  const int peer = 1 - me;
  const auto collective = static_cast<Collective>(args.collective);
  const bool sends = collective != Collective::reduce || me != args.root;
  const bool receives = collective != Collective::reduce || me == args.root;
  const auto* send = reinterpret_cast<const char*>(args.send);
  const uint64_t unit = args.unit;
  const uint64_t packs = packs_of(unit);
  // Bytes of a rank's part in the whole call, of which this launch may do less.
  const uint64_t part = collective == Collective::reduce_scatter ? args.tile : 0;
  const char* own = send + static_cast<uint64_t>(me) * part;
  const char* for_peer = send + static_cast<uint64_t>(peer) * part;

  const uint32_t epoch = current_epoch(comm);
  const uint64_t slot = comm.one_shot_slot;
  const uint64_t half = comm.one_shot + static_cast<uint64_t>(epoch & 1U) * slot;
  auto* there = reinterpret_cast<uint4*>(comm.control[peer] + half);
  auto* slots = reinterpret_cast<char*>(comm.control[me] + half);
  const uint64_t first = blockIdx.x * blockDim.x + threadIdx.x;
  const uint64_t stride = gridDim.x * blockDim.x;

  if (sends && first < packs) {
    store_relaxed(there + first, sendable(load_pack(for_peer, unit, first)));
  }
  // Both ranks send a token, by which a root that sends nothing is heard and another call is
  // noticed.
  bool ok = exchange_tokens(args, half, slot, epoch);
  for (uint64_t q = first; ok && q < packs; q += stride) {
    const uint64_t next = q + stride;
    uint4 ahead{};
    uint4 mine{};
    uint4 v[2];
    if (sends && next < packs) ahead = sendable(load_pack(for_peer, unit, next));
    // Sendable, for the same NaN here as on the other rank.
    if (receives) mine = sendable(load_pack(own, unit, q));
    if (sends && next < packs) store_relaxed(there + next, ahead);
    if (!receives) continue;

    ok = receive<2>(comm, v, 1U << peer, slots, slot, q, epoch);
    if (!ok) break;

#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (r == me) v[r] = mine;
    }
    store_pack(reinterpret_cast<char*>(args.recv), unit, q, Arithmetic::run(v, 2, args));
    free_cells<2>(me, 1U << peer, slots, slot, q);
  }
  __syncthreads();
  end_epoch(comm, epoch);
}
}  // namespace

#define SYMM_ONE_SHOT_AHEAD(name, arithmetic)                                \
  extern "C" __global__ void __launch_bounds__(512, 2)                       \
      symm_one_shot_ahead_##name(const __grid_constant__ CollectiveArgs a) { \
    run<arithmetic>(a);                                                      \
  }
SYMM_FOR_ARITHMETICS_ONLY(SYMM_ONE_SHOT_AHEAD)
