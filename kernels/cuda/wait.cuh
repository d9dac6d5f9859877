// SPDX-License-Identifier: Apache-2.0
//
// The only place in which kernels wait. A wait polls one word after the other; every thousand looks it asks whether the group was
// aborted, whether the peer has left and what time it is, and on trouble writes the error record and says so. The kernel then
// leaves: it never traps, so the context and the stream stay usable.
#pragma once

#include "kernels/cuda/memory.cuh"

namespace symm::cuda {

struct Trail {  // of a thread that waits
  uint64_t deadline = 0;
  uint32_t looks = 0;
  bool left = false;  // the peer had left when we last asked
};

static __device__ __noinline__ void report(const World& world, Trouble trouble, int peer, uint32_t channel, uint32_t expected,
                                           uint32_t seen, uint64_t peer_detail = 0, uint64_t peer_count = 0,
                                           uint64_t my_detail = 0, uint64_t my_count = 0) {
  ControlWords& mine = words_of(world, world.rank);
  if (atomicCAS(&mine.failed, 0U, 1U) != 0) return;
  auto* record = reinterpret_cast<volatile ErrorRecord*>(world.record);
  record->trouble = static_cast<uint32_t>(trouble);
  record->operation = world.operation;
  record->peer = peer;
  record->channel = channel;
  record->expected = expected;
  record->seen = seen;
  record->my_detail = my_detail;
  record->my_count = my_count;
  record->peer_detail = peer_detail;
  record->peer_count = peer_count;
  fence_system();
  record->state = 1;
  store_relaxed(&mine.abort, 1U);
}

// False: leave.
static __device__ __noinline__ bool look_around(const World& world, Trail& trail, int peer, uint32_t channel, uint32_t expected,
                                                uint32_t seen) {
  ControlWords& mine = words_of(world, world.rank);
  if (load_relaxed(&mine.abort) != 0) return false;
  if ((load_relaxed(&mine.departed) >> peer & 1U) != 0) {
    if (trail.left) {  // what it stored before it left would have been seen by now
      report(world, Trouble::departed, peer, channel, expected, seen);
      return false;
    }
    trail.left = true;
  }
  if (world.timeout_ns == UINT64_MAX) return true;
  const uint64_t now = nanoseconds();
  if (trail.deadline == 0) trail.deadline = now + world.timeout_ns;
  if (now < trail.deadline) return true;
  report(world, Trouble::timeout, peer, channel, expected, seen);
  return false;
}

// To be asked in each turn of a polling loop.
__device__ __forceinline__ bool go_on(const World& world, Trail& trail, int peer, uint32_t channel, uint32_t expected,
                                      uint32_t seen) {
  if ((++trail.looks & 1023U) != 0) return true;
  return look_around(world, trail, peer, channel, expected, seen);
}

// Wait until a counter has come to `target` (as a signed difference, so that it may wrap). What was released before the counter
// is then in view of this thread, and behind a block barrier of its block.
__device__ __forceinline__ bool await_count(const World& world, Trail& trail, const uint32_t* word, uint32_t target, int peer,
                                            uint32_t channel) {
  uint32_t seen;
  while (static_cast<int32_t>((seen = load_relaxed(word)) - target) < 0) {
    if (!go_on(world, trail, peer, channel, target, seen)) return false;
  }
  load_acquire(word);  // counters only grow, so this too reads what was released or something later of the same writer
  return true;
}

}  // namespace symm::cuda
