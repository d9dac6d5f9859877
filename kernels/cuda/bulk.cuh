// Copies by the engine that each multiprocessor has for them (compute capability 9.0 and later),
// through its shared memory. One thread keeps as many bytes under way as a thousand threads that
// load and store, so few multiprocessors nearly fill the links.
#pragma once

#include "kernels/cuda/memory.cuh"

namespace symm::cuda {
// The sources and destinations of a copy, in parts of equal length. Part 0 is for this rank
// itself, and its `to` is null where it is there already.
struct Parts {
  // All ranks get part 0.
  bool is_one;
  int ranks;
  const char* from[kRoom];
  char* to[kRoom];
};

#if __CUDA_ARCH__ >= 900
// Loads that are under way while as much is stored.
inline constexpr uint32_t kBulkAhead = kBulkStages / 2;

// The shared memory of a block.
struct Bulk {
  alignas(128) char stage[kBulkStages][kBulkBytes];
  uint64_t loaded[kBulkStages];
};
static_assert(sizeof(Bulk) <= kBulkShared);

// The progress of one thread with the copies of its block. It divides nowhere, since that
// would take longer than a copy.
struct BulkCursor {
  uint64_t at;
  // Blocks begin with different parts, so that at any time they store to different ranks.
  int part;
  int turn = 0;
  uint32_t stage = 0;
  uint32_t phase = 0;

  __device__ uint32_t bytes(uint64_t all) const {
    return static_cast<uint32_t>(all - at < kBulkBytes ? all - at : kBulkBytes);
  }

  __device__ void advance(int parts, uint64_t stride) {
    part = part + 1 < parts ? part + 1 : 0;
    turn = turn + 1 < parts ? turn + 1 : 0;
    if (turn == 0) at += stride;
    stage = stage + 1 < kBulkStages ? stage + 1 : 0;
    if (stage == 0) phase ^= 1U;
  }
};

// Copies to the other ranks, called by one thread, once in a launch, in block `index` of `blocks`
// that share the work. Addresses and bytes are multiples of 16. What was stored is in view of
// this thread at the end.
static __device__ __noinline__ void copy_in_bulk(
    Bulk& bulk, const Parts& all, uint64_t bytes, uint32_t index, uint32_t blocks) {
  const auto shared = [](const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
  };
  for (uint64_t& loaded : bulk.loaded) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared(&loaded)) : "memory");
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");

  const int others = all.ranks - 1;
  const int parts = all.is_one ? 1 : others;
  const uint64_t stride = uint64_t{blocks} * kBulkBytes;
  BulkCursor in{uint64_t{index} * kBulkBytes, static_cast<int>(index) % parts};
  BulkCursor out = in;

  for (uint32_t ahead = 0; out.at < bytes; ahead = ahead < kBulkAhead ? ahead + 1 : ahead) {
    if (in.at < bytes) {
      const uint32_t loaded = shared(&bulk.loaded[in.stage]);
      // Waits until the last copy out of this stage has read it.
      asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kBulkStages - kBulkAhead - 1)
          : "memory");
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(loaded),
          "r"(in.bytes(bytes))
          : "memory");
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
          "[%3];" ::"r"(shared(bulk.stage[in.stage])),
          "l"(all.from[1 + in.part] + in.at), "r"(in.bytes(bytes)), "r"(loaded)
          : "memory");
      in.advance(parts, stride);
    }
    if (ahead < kBulkAhead) continue;

    uint32_t is_loaded = 0;
    while (is_loaded == 0) {
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, "
          "0, p; }"
          : "=r"(is_loaded)
          : "r"(shared(&bulk.loaded[out.stage])), "r"(out.phase)
          : "memory");
    }

    for (int d = all.is_one ? others : 1; d > 0; --d) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                       all.to[d + out.part] + out.at),
          "r"(shared(bulk.stage[out.stage])), "r"(out.bytes(bytes))
          : "memory");
    }
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    out.advance(parts, stride);
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
#endif
}  // namespace symm::cuda
