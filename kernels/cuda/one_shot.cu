// One shot: every rank pushes what it has to everybody who needs it, and combines what it gets. One hop, no barrier, no fence.
// All-reduce, and reduce-scatter (each rank pushes a different part to each other one).
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/push.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
template <class Arithmetic, int kRanks> __device__ __forceinline__ void run(const CollectiveArgs& args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready
  const DeviceComm& comm = args.comm;
  const int n = Arithmetic::template ranks<kRanks>(comm);
  const int me = comm.rank;
  const auto* send = reinterpret_cast<const char*>(args.send);
  auto* recv = reinterpret_cast<char*>(args.recv);
  const uint64_t unit = args.unit;
  const uint64_t packs = packs_of(unit);
  const bool part_each = static_cast<Collective>(args.collective) == Collective::reduce_scatter;
  const char* own = part_each ? send + static_cast<uint64_t>(me) * unit : send;
  const uint32_t epoch = current_epoch(comm);
  const uint64_t half = static_cast<uint64_t>(epoch & 1U) * static_cast<uint64_t>(n - 1) * comm.one_shot_slot;
  auto* slots = reinterpret_cast<char*>(comm.control[me] + comm.one_shot + half);
  const uint64_t first = blockIdx.x * blockDim.x + threadIdx.x;
  const uint64_t stride = gridDim.x * blockDim.x;

  for (uint64_t q = first; q < packs; q += stride) {
    uint4 v{};
    if (!part_each) v = sendable(load_pack(send, unit, q));
#pragma unroll
    for (int d = 1; d < kRanks; ++d) {
      if (d >= n) continue;
      const int p = me + d < n ? me + d : me + d - n;
      if (part_each) v = sendable(load_pack(send + static_cast<uint64_t>(p) * unit, unit, q));
      const uint64_t slot = comm.one_shot + half + slot_among<kRanks>(p, me) * comm.one_shot_slot;
      store_relaxed(reinterpret_cast<uint4*>(comm.control[p] + slot) + q, v);
    }
  }

  const uint32_t others = ((1U << n) - 1U) & ~(1U << me);
  for (uint64_t q = first; q < packs; q += stride) {
    const uint4 mine = sendable(load_pack(own, unit, q));  // the same NaN here as on the other ranks
    uint4 v[kRanks];
    if (!receive<kRanks>(comm, v, others, slots, comm.one_shot_slot, q, epoch)) break;
#pragma unroll
    for (int r = 0; r < kRanks; ++r)
      if (r == me) v[r] = mine;
    store_pack(recv, unit, q, Arithmetic::run(v, n, args));
    free_cells<kRanks>(me, others, slots, comm.one_shot_slot, q);
  }
  end_epoch(comm, epoch);
}
}  // namespace

// 512 threads: the largest block that is launched. Of few ranks two of them have room on a multiprocessor, as shape_one_shot()
// has it.
#define SYMM_ONE_SHOT(name, arithmetic, ranks)                                   \
  extern "C" __global__ void __launch_bounds__(512, ranks <= 4 ? 2 : 1)          \
      symm_one_shot_##name##_##ranks(const __grid_constant__ CollectiveArgs a) { \
    run<arithmetic, ranks>(a);                                                   \
  }
SYMM_FOR_ARITHMETICS(SYMM_ONE_SHOT)
