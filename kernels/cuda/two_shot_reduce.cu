// Two shots of a reduce of three ranks or more: every rank but the root owns a slice, combines
// what the others push to it (push.cuh), and pushes the result to the root. So each link carries
// the message once. A thread has a pack of every slice in each round, and pushes that of the next
// round before it combines this one's, so both hops go on at once.
//
// Rounds are grouped into chunks, which use the two halves of the scratch by turns, as calls do.
//
// Invariant: a cell is free when it is used again two chunks later, in this call or the next.
//   1. A thread fences what it has freed in one chunk when it begins with the next, of which it
//      has pushed one round then.
//   2. In every round a thread hears from the same thread of every other rank to which it pushes.
//      All threads have a pack in every round but the last one of all, since beyond the end of a
//      slice a pack of zeros is pushed. A chunk has three rounds or more, so they hear of one
//      round that is behind that fence.
//   3. They do so before they push the first round of the chunk after it. If that chunk is the
//      first of the next call, the kernel has ended.
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
  const int root = args.root;
  const auto* send = reinterpret_cast<const char*>(args.send);
  const auto unit = static_cast<uint32_t>(args.unit);
  const uint32_t packs = packs_of(unit);
  const auto owners = static_cast<uint32_t>(n - 1);
  const uint32_t per_slice = (packs + owners - 1) / owners;
  // Pack q of what rank p owns, in the message. The last packs of the last slices are beyond its
  // end.
  const auto in_message = [&](int p, uint32_t q) {
    return static_cast<uint32_t>(p < root ? p : p - 1) * per_slice + q;
  };

  const uint32_t epoch = current_epoch(comm);
  const uint64_t slot = comm.one_shot_slot;
  const uint32_t first = blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t stride = gridDim.x * blockDim.x;
  const uint32_t rounds = (per_slice + stride - 1) / stride;
  const auto chunks = static_cast<uint32_t>(args.tiles);
  // Rounds of a chunk; the first `longer` chunks have one more.
  const uint32_t of_chunk = rounds / chunks;
  const uint32_t longer = rounds % chunks;
  const auto end_of = [&](uint32_t chunk) {
    return ((chunk + 1) * of_chunk + (chunk < longer ? chunk + 1 : longer)) * stride;
  };
  const auto half_of = [&](uint32_t chunk) {
    return comm.one_shot + static_cast<uint64_t>((epoch + chunk) & 1U) * owners * slot;
  };

  // The progress of a thread: pack q of each slice, and the cell that it has in the half of the
  // chunk, which ends before pack `end`.
  struct Cursor {
    uint32_t q;
    uint32_t cell;
    uint32_t chunk;
    uint32_t end;
  };

  const auto advance = [&](Cursor& at) {
    at.q += stride;
    at.cell += stride;
    if (at.q < at.end) return;
    at.end = end_of(++at.chunk);
    at.cell = first;
  };
  const auto my_cell = [&](int p, const Cursor& at) {
    return reinterpret_cast<uint4*>(
               comm.control[p] + half_of(at.chunk) + slot_among<kRoom>(p, me) * slot) +
           at.cell;
  };

  Cursor here{first, first, 0, end_of(0)};
  Cursor ahead = here;
  const auto push = [&] {
    if (ahead.q >= per_slice) return;
    uint4 v[kRanks];
#pragma unroll
    for (int d = 1; d < kRanks; ++d) {
      const int p = me + d < n ? me + d : me + d - n;
      if (d < n && p != root) {
        v[d] = in_message(p, ahead.q) < packs ? load_pack(send, unit, in_message(p, ahead.q))
                                              : uint4{};
      }
    }
#pragma unroll
    for (int d = 1; d < kRanks; ++d) {
      const int p = me + d < n ? me + d : me + d - n;
      if (d < n && p != root) store_relaxed(my_cell(p, ahead), sendable(v[d]));
    }
    advance(ahead);
  };

  push();
  // All ranks send a token, by which they see that all mean the same root.
  bool ok = exchange_tokens(args, half_of(0), slot, epoch);
  const uint32_t others = ((1U << n) - 1U) & ~(1U << me);
  for (; ok && here.q < per_slice; advance(here)) {
    if (here.chunk != 0 && here.cell == first) fence_system();
    push();
    uint4 v[kRanks];
    auto* slots = reinterpret_cast<char*>(comm.control[me] + half_of(here.chunk));
    const bool owns = me != root;
    const uint4 mine = owns && in_message(me, here.q) < packs
                           ? sendable(load_pack(send, unit, in_message(me, here.q)))
                           : uint4{};
    ok = receive<kRanks>(comm, v, others, slots, slot, here.cell, epoch);
    if (!ok) break;

    if (owns) {
#pragma unroll
      for (int r = 0; r < kRanks; ++r) {
        if (r == me) v[r] = mine;
      }
      store_relaxed(my_cell(root, here), sendable(Arithmetic::run(v, n, args)));
    } else {
#pragma unroll
      for (int r = 0; r < kRanks; ++r) {
        if ((others >> r & 1U) != 0 && in_message(r, here.q) < packs) {
          store_pack(reinterpret_cast<char*>(args.recv), unit, in_message(r, here.q), v[r]);
        }
      }
    }
    free_cells<kRanks>(me, others, slots, slot, here.cell);
  }
  __syncthreads();
  end_epoch(comm, epoch, chunks);
}
}  // namespace

#define SYMM_TWO_SHOT_REDUCE(name, arithmetic, ranks)                                   \
  extern "C" __global__ void __launch_bounds__(ranks <= 4 ? 512 : 256, 1)               \
      symm_two_shot_reduce_##name##_##ranks(const __grid_constant__ CollectiveArgs a) { \
    run<arithmetic, ranks>(a);                                                          \
  }
SYMM_FOR_ARITHMETICS_OF_MORE(SYMM_TWO_SHOT_REDUCE)
