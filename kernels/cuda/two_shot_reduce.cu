// Two shots of a reduce of three ranks or more: every rank but the root owns a slice, combines what the others push to it, and
// pushes the result to the root. So each link carries the message once. A thread pushes a pack ahead of each that it combines,
// so both hops go on at once.
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
  const int root = args.root;
  const auto* send = reinterpret_cast<const char*>(args.send);
  const auto unit = static_cast<uint32_t>(args.unit);
  const uint32_t packs = packs_of(unit);
  const auto owners = static_cast<uint32_t>(n - 1);
  const uint32_t per_slice = (packs + owners - 1) / owners;
  // Pack q of what rank p owns, in the message; beyond its end for the last packs of the last slices.
  const auto in_message = [&](int p, uint32_t q) { return static_cast<uint32_t>(p < root ? p : p - 1) * per_slice + q; };
  const uint32_t epoch = current_epoch(comm);
  const uint64_t slot = comm.one_shot_slot;
  const uint64_t half = comm.one_shot + static_cast<uint64_t>(epoch & 1U) * owners * slot;
  const auto my_cell = [&](int p, uint32_t q) {
    return reinterpret_cast<uint4*>(comm.control[p] + half + slot_among<kMaxRanks>(p, me) * slot) + q;
  };
  auto* slots = reinterpret_cast<char*>(comm.control[me] + half);
  const uint32_t first = blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t stride = gridDim.x * blockDim.x;

  const auto push = [&](uint32_t q) {
    if (q >= per_slice) return;
    uint4 v[kRanks];
#pragma unroll
    for (int d = 1; d < kRanks; ++d) {
      const int p = me + d < n ? me + d : me + d - n;
      if (d < n && p != root && in_message(p, q) < packs) v[d] = load_pack(send, unit, in_message(p, q));
    }
#pragma unroll
    for (int d = 1; d < kRanks; ++d) {
      const int p = me + d < n ? me + d : me + d - n;
      if (d < n && p != root && in_message(p, q) < packs) store_relaxed(my_cell(p, q), sendable(v[d]));
    }
  };
  push(first);
  // All have a token, since the root hears from owners only, and these not from it if their slices are empty.
  bool ok = first != 0 || exchange_token(args, half, slot, slot / kPack - 1, epoch);
  const uint32_t others = ((1U << n) - 1U) & ~(1U << me);
  for (uint32_t q = first; ok && q < per_slice; q += stride) {
    push(q + stride);
    uint4 v[kRanks];
    if (me == root) {
      uint32_t sources = 0;
      for (int r = 0; r < n; ++r)
        if (r != me && in_message(r, q) < packs) sources |= 1U << r;
      ok = receive<kRanks>(comm, v, sources, slots, slot, q, epoch);
      if (!ok) break;
#pragma unroll
      for (int r = 0; r < kRanks; ++r)
        if ((sources >> r & 1U) != 0) store_pack(reinterpret_cast<char*>(args.recv), unit, in_message(r, q), v[r]);
      free_cells<kRanks>(me, sources, slots, slot, q);
    } else if (in_message(me, q) < packs) {
      const uint4 mine = sendable(load_pack(send, unit, in_message(me, q)));
      ok = receive<kRanks>(comm, v, others, slots, slot, q, epoch);
      if (!ok) break;
#pragma unroll
      for (int r = 0; r < kRanks; ++r)
        if (r == me) v[r] = mine;
      store_relaxed(my_cell(root, q), sendable(Arithmetic::run(v, n, args)));
      free_cells<kRanks>(me, others, slots, slot, q);
    }
  }
  end_epoch(comm, epoch);
}
}  // namespace

#define SYMM_TWO_SHOT_REDUCE(name, arithmetic, ranks)                                   \
  extern "C" __global__ void __launch_bounds__(ranks <= 4 ? 512 : 256, 1)               \
      symm_two_shot_reduce_##name##_##ranks(const __grid_constant__ CollectiveArgs a) { \
    run<arithmetic, ranks>(a);                                                          \
  }
SYMM_FOR_ARITHMETICS_OF_MORE(SYMM_TWO_SHOT_REDUCE)
