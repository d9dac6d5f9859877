// SPDX-License-Identifier: Apache-2.0
//
// Two shots: every rank pushes each slice of its operand to the slice's owner; owners combine and push the result to everybody. Two hops,
// no barrier, no fence. All-reduce. Each thread carries the same packs through all three steps, so recv may be send.
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/push.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {

template <class Arithmetic, int kRanks>
__device__ __forceinline__ void run(const CollectiveArgs& args) {
  if (args.world.size == 0) return;  // a launch to make it ready
  const World& world = args.world;
  const int n = kRanks <= 8 ? kRanks : world.size;
  const int me = world.rank;
  const auto* send = reinterpret_cast<const char*>(args.send);
  auto* recv = reinterpret_cast<char*>(args.recv);
  const uint64_t bytes = args.unit;
  const uint64_t packs = packs_of(bytes);
  const uint64_t per_slice = (packs + static_cast<uint64_t>(n) - 1) / static_cast<uint64_t>(n);
  const uint32_t epoch = current_epoch(world);
  const uint64_t slot = world.two_shot_slot;
  const uint64_t first_half = world.two_shot + static_cast<uint64_t>(epoch & 1U) * 2 * static_cast<uint64_t>(n) * slot;
  const uint64_t second_half = first_half + static_cast<uint64_t>(n) * slot;
  const uint64_t my_slot = static_cast<uint64_t>(me) * slot;
  const uint64_t first = blockIdx.x * blockDim.x + threadIdx.x;
  const uint64_t stride = gridDim.x * blockDim.x;
  // Pack q of slice r, in the message; beyond its end for the last packs of the last slices.
  const auto in_message = [&](int r, uint64_t q) { return static_cast<uint64_t>(r) * per_slice + q; };

  for (uint64_t q = first; q < per_slice; q += stride) {
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
      if (in_message(p, q) < packs) store_relaxed(reinterpret_cast<uint4*>(world.control[p] + first_half + my_slot) + q, sendable(v[d]));
    }
  }

  Trail trail;
  bool ok = true;
  const uint32_t others = ((1U << n) - 1U) & ~(1U << me);
  for (uint64_t q = first; q < per_slice && in_message(me, q) < packs; q += stride) {
    const uint4 mine = sendable(load_pack(send, bytes, in_message(me, q)));
    uint4 v[kRanks];
    ok = receive<kRanks>(world, v, others, reinterpret_cast<char*>(world.control[me] + first_half), slot, q, epoch, trail);
    if (!ok) break;
#pragma unroll
    for (int r = 0; r < kRanks; ++r) {
      if (r == me) v[r] = mine;
    }
    const uint4 result = sendable(Arithmetic::run(v, n, args));
#pragma unroll
    for (int d = 1; d < kRanks; ++d) {
      if (d >= n) continue;
      const int p = me + d < n ? me + d : me + d - n;
      store_relaxed(reinterpret_cast<uint4*>(world.control[p] + second_half + my_slot) + q, result);
    }
    store_pack(recv, bytes, in_message(me, q), result);
  }

  for (uint64_t q = first; q < per_slice && ok; q += stride) {
    uint32_t owners = 0;
    for (int r = 0; r < n; ++r) {
      if (r != me && in_message(r, q) < packs) owners |= 1U << r;
    }
    uint4 v[kRanks];
    ok = receive<kRanks>(world, v, owners, reinterpret_cast<char*>(world.control[me] + second_half), slot, q, epoch, trail);
    if (!ok) break;
#pragma unroll
    for (int r = 0; r < kRanks; ++r) {
      if ((owners >> r & 1U) != 0) store_pack(recv, bytes, in_message(r, q), v[r]);
    }
  }
  end_epoch(world, epoch);
}

}  // namespace

// 512 threads: the largest block that is launched.
#define SYMM_TWO_SHOT(name, arithmetic, ranks)                                                                                 \
  extern "C" __global__ void __launch_bounds__(512) symm_two_shot_##name##_##ranks(const __grid_constant__ CollectiveArgs a) { \
    run<arithmetic, ranks>(a);                                                                                                 \
  }
#define SYMM_TWO_SHOT_ALL(name, arithmetic) \
  SYMM_TWO_SHOT(name, arithmetic, 2)        \
  SYMM_TWO_SHOT(name, arithmetic, 4)        \
  SYMM_TWO_SHOT(name, arithmetic, 8)        \
  SYMM_TWO_SHOT(name, arithmetic, 16)
SYMM_TWO_SHOT_ALL(bf16, Hot<Bf16>)
SYMM_TWO_SHOT_ALL(f16, Hot<F16>)
SYMM_TWO_SHOT_ALL(f32, Hot<Whole<float>>)
SYMM_TWO_SHOT_ALL(any, Any)
