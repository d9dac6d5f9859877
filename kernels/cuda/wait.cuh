// The only place in which kernels wait. A wait polls one word after the other. Every thousand
// polls it asks whether the group was aborted, whether the peer has left and what time it is; on
// trouble it writes the error record, and returns false. The kernel then leaves: it never traps,
// so the context and the stream stay usable.
#pragma once

#include "kernels/cuda/memory.cuh"

namespace symm::cuda {
// Writes a word, behind all that this thread, and those that it met at a block barrier, did before.
__device__ __forceinline__ void write_release(uint64_t word, WriteKind kind, uint64_t value) {
  auto* const at = reinterpret_cast<uint64_t*>(word);
  switch (kind) {
    case WriteKind::add: return add_release(at, value);
    case WriteKind::store64: return store_release(at, value);
    case WriteKind::store32:
      return store_release(reinterpret_cast<uint32_t*>(word), static_cast<uint32_t>(value));
  }
}

// The state of one wait of a thread; every wait has a deadline of its own.
struct SpinState {
  uint64_t deadline = 0;
  uint32_t looks = 0;
  // The peer had left when this was last asked.
  bool left = false;
};

__device__ __forceinline__ ControlWords& stages_words(const DeviceComm& comm) {
  return *reinterpret_cast<ControlWords*>(comm.stages[comm.rank]);
}

__device__ __forceinline__ const Told& told_to(const DeviceComm& comm) {
  return *reinterpret_cast<const Told*>(comm.record + kToldAt);
}

// Makes all kernels that wait leave. `spoilt` comes first, so that the next kernel finds it.
static __device__ __noinline__ void spoil(const DeviceComm& comm) {
  store_relaxed(&stages_words(comm).spoilt, 1U);
  store_relaxed(&words_of(comm, comm.rank).abort, 1U);
}

// Writes the error record, unless another thread has, and makes all kernels that wait leave.
static __device__ __noinline__ void report(const DeviceComm& comm, WaitError trouble, int peer,
    uint32_t channel, uint32_t expected, uint32_t seen, uint64_t peer_detail = 0,
    uint64_t peer_count = 0, uint64_t my_detail = 0, uint64_t my_count = 0) {
  ControlWords& mine = words_of(comm, comm.rank);
  if (atomicCAS(&mine.failed, 0U, 1U) != 0) return;

  auto* record = reinterpret_cast<volatile ErrorRecord*>(comm.record);
  record->trouble = static_cast<uint32_t>(trouble);
  record->operation = comm.operation;
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
  spoil(comm);
}

// Returns whether this kernel may work in the stages (ControlWords::spoilt). A kernel asks after it
// has told the other ranks that it is there, since their answers take longer than this one.
static __device__ __noinline__ bool may_use_stages(const DeviceComm& comm, uint32_t channel) {
  if (load_relaxed(&stages_words(comm).spoilt) == 0) return true;
  report(comm, WaitError::spoilt, comm.rank, channel, 0, 0);
  return false;
}

// A token tells that a rank has come, and to which call.
__device__ __forceinline__ uint4 token_of(const CollectiveArgs& args) {
  return {static_cast<uint32_t>(args.detail), static_cast<uint32_t>(args.detail >> 32),
      static_cast<uint32_t>(args.count), static_cast<uint32_t>(args.count >> 32)};
}

// Reports a mismatch, and returns false, if the token of `peer` is of another call.
static __device__ __noinline__ bool check_token(
    const DeviceComm& comm, int peer, uint4 theirs, uint4 mine) {
  const auto word = [](uint32_t low, uint32_t high) {
    return static_cast<uint64_t>(high) << 32 | low;
  };
  const uint64_t detail = word(theirs.x, theirs.y);
  const uint64_t count = word(theirs.z, theirs.w);
  const uint64_t my_detail = word(mine.x, mine.y);
  const uint64_t my_count = word(mine.z, mine.w);
  if (detail == my_detail && count == my_count) return true;

  report(comm, WaitError::mismatch, peer, blockIdx.x, 0, 0, detail, count, my_detail, my_count);
  return false;
}

// Have all of these ranks left?
__device__ __forceinline__ bool have_left(const DeviceComm& comm, const RankSet& peers) {
  const RankSet& departed = told_to(comm).departed;
  bool all = true;
#pragma unroll
  for (int w = 0; w < RankSet::kWords; ++w) {
    all = all && (load_relaxed(&departed.word[w]) & peers.word[w]) == peers.word[w];
  }
  return all;
}

// Is this kernel to leave?
__device__ __forceinline__ bool is_aborted(const DeviceComm& comm) {
  ControlWords& mine = words_of(comm, comm.rank);
  if (load_relaxed(&mine.abort) != 0) return true;
  if (load_relaxed(&told_to(comm).abort) == 0) return false;
  // Before this kernel leaves, so that the next one finds it.
  spoil(comm);
  return true;
}

// Why a wait has to end, or WaitError::none. `peers` can write what is waited for; the wait ends
// when all of them have left, and if there are none it does not depend on ranks. A wait times out
// when `deadlines` timeouts have passed.
__device__ __forceinline__ WaitError trouble_with(
    const DeviceComm& comm, SpinState& spin, const RankSet& peers, uint64_t deadlines = 1) {
  if (is_aborted(comm)) return WaitError::aborted;
  if (!peers.is_empty() && have_left(comm, peers)) {
    // By now everything would have been seen that the peer stored before it left.
    if (spin.left) return WaitError::departed;
    spin.left = true;
  }

  if (comm.timeout_ns == UINT64_MAX) return WaitError::none;
  const uint64_t now = nanoseconds();
  if (spin.deadline == 0) spin.deadline = now + comm.timeout_ns;
  return now < spin.deadline + (deadlines - 1) * comm.timeout_ns ? WaitError::none
                                                                 : WaitError::timeout;
}

// What check_abort() returns if the kernel has to leave.
inline constexpr uint64_t kLeave = ~uint64_t{0};

// Takes and returns the deadline, whose bit 0 says that the peer had left. By value, so that the
// state of a wait stays in registers.
static __device__ __noinline__ uint64_t check_abort(const DeviceComm& comm, uint64_t deadline,
    int peer, uint32_t channel, uint32_t expected, uint32_t seen) {
  SpinState spin{deadline & ~uint64_t{1}, 0, (deadline & 1U) != 0};
  // This rank itself is blamed last: what keeps it waiting is a block of its own that waits for
  // another rank, and that block reports which one.
  const uint64_t deadlines = peer == comm.rank ? 2 : 1;
  const WaitError trouble = trouble_with(comm, spin, RankSet::of(peer), deadlines);
  if (trouble == WaitError::none) return (spin.deadline & ~uint64_t{1}) | (spin.left ? 1U : 0U);
  if (trouble != WaitError::aborted) report(comm, trouble, peer, channel, expected, seen);
  return kLeave;
}

// To be called in each turn of a polling loop. False: the kernel has to leave.
__device__ __forceinline__ bool keep_waiting(const DeviceComm& comm, SpinState& spin, int peer,
    uint32_t channel, uint32_t expected, uint32_t seen) {
  if ((++spin.looks & 1023U) != 0) return true;
  spin.deadline = check_abort(comm, spin.deadline, peer, channel, expected, seen);
  return spin.deadline != kLeave;
}

// Waits until a counter has come to `target`, by the sign of the difference, so that counters may
// wrap. What was released before the counter is then in view of this thread, and behind a block
// barrier of its block.
__device__ __forceinline__ bool await_count(
    const DeviceComm& comm, const uint32_t* word, uint32_t target, int peer, uint32_t channel) {
  SpinState spin;
  uint32_t seen;
  // The condition assigns: to load before the loop and at its end compiles to other instructions.
  while (static_cast<int32_t>((seen = load_acquire(word)) - target) < 0) {
    if (!keep_waiting(comm, spin, peer, channel, target, seen)) return false;
  }
  return true;
}
}  // namespace symm::cuda
