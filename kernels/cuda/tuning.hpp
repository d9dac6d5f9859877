// The thresholds of the CUDA back end.
#pragma once

#include <cstdint>

namespace symm::cuda {
// The sizes at which one algorithm gives way to the next, and the sizes of launches
// and scratch. Equal on all ranks of a group. The values, which were measured, are in
// core/backend/plan_table.txt, which also says how to override them. Thresholds are
// in bytes per rank.
struct Tuning {
  // LL carries types that cannot be pushed up to here; of data movement, a quarter.
  uint64_t ll_max = 0;
  uint64_t one_shot_max = 0;
  // A reduce-scatter takes one hop up to here.
  uint64_t scatter_max = 0;
  // Data moves with marks up to here.
  uint64_t marked_max = 0;
  uint64_t two_shot_max = 0;
  // Half of the scratch of two shots holds so much; larger messages go through it in chunks.
  uint64_t two_shot_chunk = 0;
  // The root of a broadcast sends everything to all ranks itself while its bytes, times the
  // ranks less two, are no more than this.
  uint64_t direct_max = 0;
  // A broadcast above `direct_max` goes with marks up to here.
  uint64_t relay_max = 0;
  // A reduce to one of three ranks or more takes two shots up to here.
  uint64_t reduce_max = 0;
  // Copy engines move data from here on, where recvs lie at the same offsets.
  uint64_t engine_min = 0;

  // Blocks of the pipeline that copy in bulk.
  int movers = 0;
  // Threads of a block, while there are fewer than 128 blocks.
  int threads = 0;
  // A kernel of at most this number of threads may be launched before the one ahead
  // of it has ended.
  int early = 0;
  // Work groups of the pipeline, at most, and threads of a block of it.
  int work_groups = 0;
  int width = 0;
  // Bytes that the pipeline's scratch has for a chunk, where all its blocks have room.
  uint64_t tile = 0;
  // Bytes of scratch for the wide operands of scaled calls.
  uint64_t wide = uint64_t{8} << 20;
  // Multiprocessors that kernels get, at most.
  int multiprocessors = 4096;
  // Groups whose kernels work on a device at a time.
  int groups = 1;
  // All groups have the kernels of large ones.
  bool large = false;
  // The bytes that take as long to send between machines as it takes to begin.
  uint64_t hop = 1;
};
}  // namespace symm::cuda
