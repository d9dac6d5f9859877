// Two shots of an all-reduce: every rank pushes each slice of its operand to the slice's owner
// (push.cuh); owners combine and push the result to all. Two hops, no barrier, no fence. Each
// thread carries the same packs through all three steps, so recv may be send.
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/push.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
// Does one chunk, which is as much as half of the scratch holds. `first` and `second` are where
// its two stages begin in a control block. Threads below `heard` that have no pack of the chunk
// exchange tokens. Long, since a kernel is not divided: that can change what stays in registers.
template <class Arithmetic, int kRanks>
__device__ __forceinline__ bool run_chunk(const CollectiveArgs& args, const char* send, char* recv,
    uint32_t bytes, uint64_t first, uint64_t second, uint32_t epoch, uint32_t heard) {
  const DeviceComm& comm = args.comm;
  const int n = Arithmetic::template ranks<kRanks>(comm);
  const int me = comm.rank;
  const uint32_t packs = packs_of(bytes);
  const uint32_t per_slice = (packs + static_cast<uint32_t>(n) - 1) / static_cast<uint32_t>(n);
  const uint64_t slot = comm.two_shot_slot;
  // The slot of slot_among(), in fewer registers.
  const auto my_slot = [&](int owner) {
    if (kRanks == 2) return uint64_t{0};
    const uint64_t skipped = me > owner ? slot : 0;
    return static_cast<uint64_t>(me) * slot - skipped;
  };
  const uint32_t start = blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t stride = gridDim.x * blockDim.x;
  // Pack q of slice r, in the message. The last packs of the last slices are beyond its end.
  const auto in_message = [&](int r, uint32_t q) {
    return static_cast<uint32_t>(r) * per_slice + q;
  };

  for (uint32_t q = start; q < per_slice; q += stride) {
    uint4 v[kRanks];
#pragma unroll
    for (int d = 1; d < kRanks; ++d) {
      if (d >= n) continue;
      const int p = me + d < n ? me + d : me + d - n;
      if (in_message(p, q) < packs) v[d] = load_pack(send, bytes, in_message(p, q));
    }
#pragma unroll
    for (int d = 1; d < kRanks; ++d) {
      if (d >= n) continue;
      const int p = me + d < n ? me + d : me + d - n;
      if (in_message(p, q) < packs) {
        store_relaxed(
            reinterpret_cast<uint4*>(comm.control[p] + first + my_slot(p)) + q, sendable(v[d]));
      }
    }
  }

  if (start >= per_slice && start < heard && !exchange_token(args, first, slot, start, epoch)) {
    return false;
  }

  const uint32_t others = ((1U << n) - 1U) & ~(1U << me);
  auto* operands = reinterpret_cast<char*>(comm.control[me] + first);
  for (uint32_t q = start; q < per_slice && in_message(me, q) < packs; q += stride) {
    const uint4 mine = sendable(load_pack(send, bytes, in_message(me, q)));
    uint4 v[kRanks];
    if (!receive<kRanks>(comm, v, others, operands, slot, q, epoch)) return false;
#pragma unroll
    for (int r = 0; r < kRanks; ++r) {
      if (r == me) v[r] = mine;
    }
    const uint4 result = sendable(Arithmetic::run(v, n, args));
#pragma unroll
    for (int d = 1; d < kRanks; ++d) {
      if (d >= n) continue;
      const int p = me + d < n ? me + d : me + d - n;
      store_relaxed(reinterpret_cast<uint4*>(comm.control[p] + second + my_slot(p)) + q, result);
    }
    store_pack(recv, bytes, in_message(me, q), result);
    free_cells<kRanks>(me, others, operands, slot, q);
  }

  auto* results = reinterpret_cast<char*>(comm.control[me] + second);
  for (uint32_t q = start; q < per_slice; q += stride) {
    uint32_t owners = 0;
    for (int r = 0; r < n; ++r) {
      if (r != me && in_message(r, q) < packs) owners |= 1U << r;
    }
    uint4 v[kRanks];
    if (!receive<kRanks>(comm, v, owners, results, slot, q, epoch)) return false;
#pragma unroll
    for (int r = 0; r < kRanks; ++r) {
      if ((owners >> r & 1U) != 0) store_pack(recv, bytes, in_message(r, q), v[r]);
    }
    free_cells<kRanks>(me, owners, results, slot, q);
  }
  return true;
}

// Larger messages go in chunks, which use the two halves of the scratch by turns, as calls do.
// Threads do not wait for each other, so the stages of chunks overlap.
//
// Invariant: a cell is free when it is used again two chunks later, in this call or the next.
//   1. A thread fences what it has freed in one chunk before it pushes in the next.
//   2. In that next chunk each thread hears, at first or second hand, from the same thread of
//      every other rank, which has pushed; by a token, if the chunk is too short to have a pack
//      for it.
//   3. The same thread pushes to that cell in the chunk after it, and so, by 1 and 2, after the
//      cell was freed.
//   4. If that chunk is the first of the next call, the kernel has ended, so all of its threads
//      have heard.
template <class Arithmetic, int kRanks>
__device__ __forceinline__ void run(const CollectiveArgs& args) {
  begin();
  if (args.comm.size == 0) return;  // a launch to make it ready

  const DeviceComm& comm = args.comm;
  const auto n = static_cast<uint64_t>(comm.size);
  const uint32_t epoch = current_epoch(comm);
  const uint64_t stage = (n - 1) * comm.two_shot_slot;

  uint32_t step = 0;
  for (uint64_t at = 0; at < args.unit; at += args.tile, ++step) {
    const auto bytes =
        static_cast<uint32_t>(args.unit - at < args.tile ? args.unit - at : args.tile);
    const uint64_t first = comm.two_shot + static_cast<uint64_t>((epoch + step) & 1U) * 2 * stage;
    if (step != 0) fence_system();
    if (!run_chunk<Arithmetic, kRanks>(args, reinterpret_cast<const char*>(args.send) + at,
            reinterpret_cast<char*>(args.recv) + at, bytes, first, first + stage, epoch + step,
            step == 0 ? 0 : static_cast<uint32_t>(args.tile / kPack / n))) {
      break;
    }
  }
  end_epoch(comm, epoch, static_cast<uint32_t>(args.tiles));
}
}  // namespace

// Bounds are those of the largest block that is launched, one on a multiprocessor, as
// shape_two_shot() has it.
#define SYMM_TWO_SHOT(name, arithmetic, ranks)                                   \
  extern "C" __global__ void __launch_bounds__(ranks <= 4 ? 512 : 256, 1)        \
      symm_two_shot_##name##_##ranks(const __grid_constant__ CollectiveArgs a) { \
    run<arithmetic, ranks>(a);                                                   \
  }
SYMM_FOR_ARITHMETICS(SYMM_TWO_SHOT)
