// One shot: every rank pushes its operand to all others (push.cuh), and combines what it gets. One
// hop, no barrier, no fence. All-reduce, and reduce-scatter, in which each rank pushes a different
// part to each other one.
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/push.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
// Long, since a kernel is not divided: that can change what stays in registers.
template <class Arithmetic, int kRanks>
__device__ __forceinline__ void run(const CollectiveArgs& args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready

  const DeviceComm& comm = args.comm;
  const int n = Arithmetic::template ranks<kRanks>(comm);
  const int me = comm.rank;
  const auto* send = reinterpret_cast<const char*>(args.send);
  auto* recv = reinterpret_cast<char*>(args.recv);
  const auto unit = static_cast<uint32_t>(args.unit);
  const uint32_t packs = packs_of(unit);
  const bool part_each = static_cast<Collective>(args.collective) == Collective::reduce_scatter;
  const auto part_of = [&](int p) {
    return send + (part_each ? static_cast<uint64_t>(p) * unit : 0);
  };
  const auto peer = [&](int d) { return me + d < n ? me + d : me + d - n; };
  const uint32_t first = blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t stride = gridDim.x * blockDim.x;

  // Nearly always all packs are whole and aligned. Then packs need no test of their
  // own, and the first packs are loaded together with the epoch; with more ranks they
  // would take too many registers.
  constexpr bool kAtOnce = kRanks <= 8;
  const bool whole = kAtOnce && ((args.send | args.recv | unit) & (kPack - 1)) == 0;
  uint4 v[kRanks];
  const auto load = [&](uint32_t q) {
#pragma unroll
    for (int d = 0; d < kRanks; ++d) {
      if (part_each ? d < n : d == 0) v[d] = reinterpret_cast<const uint4*>(part_of(peer(d)))[q];
    }
  };
  const uint32_t epoch = current_epoch(comm);
  if (whole && first < packs) load(first);

  const auto slot = static_cast<uint32_t>(comm.one_shot_slot);
  const uint32_t half =
      static_cast<uint32_t>(comm.one_shot) + (epoch & 1U) * static_cast<uint32_t>(n - 1) * slot;
  const auto my_cells = [&](int p) {
    return reinterpret_cast<uint4*>(
        comm.control[p] + (half + static_cast<uint32_t>(slot_among<kRanks>(p, me)) * slot));
  };

  for (uint32_t q = first; whole && q < packs; q += stride) {
    if (q != first) load(q);
    v[0] = sendable(v[0]);
#pragma unroll
    for (int d = 1; d < kRanks; ++d) {
      if (!part_each && d < n) store_relaxed(my_cells(peer(d)) + q, v[0]);
    }
#pragma unroll
    for (int d = 1; d < kRanks; ++d) {
      if (part_each && d < n) store_relaxed(my_cells(peer(d)) + q, sendable(v[d]));
    }
  }
  for (uint32_t q = first; !whole && q < packs; q += stride) {
#pragma unroll(kAtOnce ? 1 : 4)
    for (int d = 1; d < n; ++d) {
      store_relaxed(my_cells(peer(d)) + q, sendable(load_pack(part_of(peer(d)), unit, q)));
    }
  }

  auto* slots = reinterpret_cast<char*>(comm.control[me] + half);
  const uint32_t others = ((1U << n) - 1U) & ~(1U << me);
  for (uint32_t q = first; q < packs; q += stride) {
    // Sendable, for the same NaN here as on the other ranks.
    const uint4 mine = sendable(load_pack(part_of(me), unit, q));
    if (!receive<kRanks>(comm, v, others, slots, slot, q, epoch)) break;
#pragma unroll
    for (int r = 0; r < kRanks; ++r) {
      if (r == me) v[r] = mine;
    }
    store_pack(recv, unit, q, Arithmetic::run(v, n, args));
    free_cells<kRanks>(me, others, slots, slot, q);
  }
  end_epoch(comm, epoch);
}
}  // namespace

// The largest block that is launched has 512 threads. With few ranks two of them have room on a
// multiprocessor, as shape_one_shot() has it.
#define SYMM_ONE_SHOT(name, arithmetic, ranks)                                   \
  extern "C" __global__ void __launch_bounds__(512, ranks <= 4 ? 2 : 1)          \
      symm_one_shot_##name##_##ranks(const __grid_constant__ CollectiveArgs a) { \
    run<arithmetic, ranks>(a);                                                   \
  }
SYMM_FOR_ARITHMETICS(SYMM_ONE_SHOT)
