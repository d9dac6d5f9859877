// Barrier, signals and the comparison of arguments: kernels of one block, whose thread r deals with
// rank r. With arguments of zeros they do nothing; so they are made ready.
#include "kernels/cuda/wait.cuh"

using namespace symm::cuda;
using symm::Compare;

namespace {
// All threads of a block that has one for each rank come here. That of a small group is a warp.
__device__ __forceinline__ void meet_all() {
  if constexpr (kRankThreads > kWarp) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}
}  // namespace

// A barrier is right on any number of streams of a rank, and in graphs that are replayed beside
// them. For each pair of ranks and channel:
//   1. Every barrier adds one to what the peer sees, and claims a number of its own, 1, 2, 3 ...,
//      both atomically.
//   2. The barrier that has claimed k waits for k arrivals of the peer. So it ends only when the
//      peer has begun k barriers.
//   3. An arrival is never taken back, and comes before any wait. So if both ranks run n barriers,
//      n arrivals come, and all barriers end.
extern "C" __global__ void __launch_bounds__(kRankThreads)
    SYMM_KERNEL(barrier)(const __grid_constant__ BarrierArgs args) {
  begin();
  const DeviceComm& comm = args.comm;
  const int peer = static_cast<int>(threadIdx.x);
  if (peer < comm.size && args.ranks.has(peer) && peer != comm.rank) {
    ControlWords& mine = words_of(comm, comm.rank);
    // Claimed before the release, which would have to wait for it otherwise.
    const uint32_t wanted = claim(&mine.barrier_taken[args.channel][peer]) + 1;
    add_release(&words_of(comm, peer).from_peers.barrier[args.channel][comm.rank], 1U);
    await_count(comm, &mine.from_peers.barrier[args.channel][peer], wanted, peer, args.channel);
  }

  // All peers have come.
  meet_all();
  let_next_launch();
}

namespace {
// Whether there is a word of 4 bytes at this address, and it is not 0.
__device__ __forceinline__ bool is_set(uint64_t word) {
  return word != 0 && load_relaxed(reinterpret_cast<const uint32_t*>(word)) != 0;
}
}  // namespace

// These kernels have no arguments that depend on the size of a group: large groups use them, too.
#ifndef SYMM_LARGE_GROUPS
extern "C" __global__ void __launch_bounds__(32)
    symm_write_word(const __grid_constant__ WriteArgs args) {
  begin();
  if (threadIdx.x != 0 || args.word == 0 || is_set(args.unless)) return;
  const uint64_t value = args.value_at == 0
                             ? args.value
                             : load_acquire(reinterpret_cast<const uint32_t*>(args.value_at));
  write_release(args.word, args.kind, value);
}

namespace {
template <class Word>
__device__ void change_word(const AtomicArgs& args) {
  const Word before = change_acq_rel(reinterpret_cast<Word*>(args.word), args.op,
      static_cast<Word>(args.value), static_cast<Word>(args.compare));
  if (args.fetched != 0) *reinterpret_cast<Word*>(args.fetched) = before;
}
}  // namespace

extern "C" __global__ void __launch_bounds__(32)
    symm_change_word(const __grid_constant__ AtomicArgs args) {
  begin();
  if (threadIdx.x != 0 || args.word == 0) return;
  if (args.bytes == sizeof(uint32_t)) {
    change_word<uint32_t>(args);
  } else {
    change_word<uint64_t>(args);
  }
}
#endif

namespace {
// Everything that was released before the returned value is in view. If the value is a sum, so
// is everything that was released with one of its addends.
__device__ __forceinline__ uint64_t load_word(const WordWait& wait) {
  return wait.bytes == sizeof(uint32_t)
             ? load_acquire(reinterpret_cast<const uint32_t*>(wait.word))
             : load_acquire(reinterpret_cast<const uint64_t*>(wait.word));
}

// To be called in each turn of a loop that waits for `wait`, or for one of several words, which
// `peers` can write (trouble_with()). False: the kernel has to leave.
__device__ bool keep_waiting_for(const DeviceComm& comm, SpinState& spin, const WordWait& wait,
    const RankSet& peers, uint64_t value, uint64_t seen) {
  if ((++spin.looks & 1023U) != 0) return true;
  const WaitError trouble = trouble_with(comm, spin, peers);
  if (trouble == WaitError::none) return true;

  if (trouble != WaitError::aborted) {
    const int peer = peers.is_empty() ? -1 : wait.peer;
    report(comm, trouble, peer, wait.channel, 0, 0, wait.word, seen,
        static_cast<uint64_t>(wait.compare), value);
  }
  return false;
}

__device__ RankSet writer_of(const WordWait& wait) {
  return wait.peer < 0 ? RankSet{} : RankSet::of(wait.peer);
}

__device__ bool await_word(
    const DeviceComm& comm, SpinState& spin, const WordWait& wait, uint64_t value) {
  uint64_t seen;
  // The condition assigns: to load before the loop and at its end takes a register more on sm_90.
  while (!holds(seen = load_word(wait), wait.compare, value)) {
    if (!keep_waiting_for(comm, spin, wait, writer_of(wait), value, seen)) return false;
  }
  return true;
}
}  // namespace

namespace {
// Waits until a word that only grows, and may wrap, has reached `value`.
__device__ void await_growth(
    const DeviceComm& comm, SpinState& spin, const WordWait& wait, uint32_t value) {
  uint32_t seen;
  while (!symm::has_reached(
      seen = load_acquire(reinterpret_cast<const uint32_t*>(wait.word)), value)) {
    if (!keep_waiting_for(comm, spin, wait, writer_of(wait), value, seen)) return;
  }
}
}  // namespace

// A kernel that takes a signal claims the next one, whether it is there or not. So no two kernels
// take the same signal, on whatever streams they run.
extern "C" __global__ void __launch_bounds__(32)
    SYMM_KERNEL(wait_word)(const __grid_constant__ WaitWordArgs args) {
  begin();
  const WordWait& wait = args.wait;
  if (threadIdx.x != 0 || wait.word == 0 || is_set(args.unless)) return;

  SpinState spin;
  if (args.wraps != 0) {
    const uint64_t value = args.value_at == 0
                               ? wait.value
                               : load_acquire(reinterpret_cast<const uint32_t*>(args.value_at));
    await_growth(args.comm, spin, wait, static_cast<uint32_t>(value));
    return let_next_launch();
  }
  await_word(args.comm, spin, wait,
      args.taken != 0 ? claim(reinterpret_cast<uint64_t*>(args.taken)) + 1 : wait.value);
  let_next_launch();
}

extern "C" __global__ void __launch_bounds__(32)
    SYMM_KERNEL(wait_words)(const __grid_constant__ WaitWordsArgs args) {
  begin();
  if (args.count == 0) return;

  SpinState spin;
  if (args.any == 0) {
    for (uint32_t i = threadIdx.x; i < args.count; i += 32) {
      if (!await_word(args.comm, spin, args.wait[i], args.wait[i].value)) break;
    }
  } else {
    RankSet peers{};
    for (uint32_t i = 0; i < args.count; ++i) {
      if (args.wait[i].peer >= 0) peers.add(args.wait[i].peer);
    }
    for (bool go_on = true; go_on;) {
      bool is_here = false;
      uint64_t seen = 0;
      for (uint32_t i = threadIdx.x; i < args.count; i += 32) {
        const uint64_t word = load_word(args.wait[i]);
        if (i == 0) seen = word;
        is_here = is_here || holds(word, args.wait[i].compare, args.wait[i].value);
      }
      // All lanes count alike, and the first speaks for all.
      if (threadIdx.x == 0 && !is_here) {
        go_on = keep_waiting_for(args.comm, spin, args.wait[0], peers, args.wait[0].value, seen);
      }
      go_on = __any_sync(~0U, is_here || !go_on) == 0;
    }
  }

  // All lanes have seen their words.
  __syncwarp();
  let_next_launch();
}

// Each rank tells each other what it is about to do, and a rank that sees a difference reports it.
// The flag rides with the data, in words of 64 bits: {number of the call, 32 bits}.
extern "C" __global__ void __launch_bounds__(kRankThreads)
    SYMM_KERNEL(check)(const __grid_constant__ CheckArgs args) {
  begin();
  const DeviceComm& comm = args.comm;
  if (comm.size == 0) return;

  const int peer = static_cast<int>(threadIdx.x);
  ControlWords& mine = words_of(comm, comm.rank);
  const uint32_t call = load_relaxed(&mine.check_epoch) + 1;
  meet_all();
  if (peer < comm.size && peer != comm.rank) {
    const uint64_t said[4] = {args.detail, args.count, args.memory, args.offset};
    uint64_t* out = words_of(comm, peer).from_peers.check[call & 1U][comm.rank].word;
    for (int i = 0; i < 8; ++i) {
      store_relaxed(out + i,
          static_cast<uint64_t>(call) << 32 | static_cast<uint32_t>(said[i / 2] >> i % 2 * 32));
    }

    const uint64_t* in = mine.from_peers.check[call & 1U][peer].word;
    uint64_t heard[4];
    SpinState spin;
    bool ok = true;
    bool all = false;
    while (ok && !all) {
      uint64_t cell[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        cell[i] = load_relaxed(in + i);
      }
      all = true;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        all = all && static_cast<uint32_t>(cell[i] >> 32) == call;
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        heard[i] = static_cast<uint32_t>(cell[2 * i]) | cell[2 * i + 1] << 32;
      }
      ok = all || keep_waiting(comm, spin, peer, 0, call, static_cast<uint32_t>(cell[0] >> 32));
    }

    if (ok && (heard[0] != said[0] || heard[1] != said[1])) {
      report(comm, WaitError::mismatch, peer, 0, 0, 0, heard[0], heard[1], said[0], said[1]);
    } else if (ok && (heard[2] != said[2] || heard[3] != said[3])) {
      report(comm, WaitError::other_place, peer, 0, 0, 0);
    }
  }
  meet_all();
  if (threadIdx.x == 0) mine.check_epoch = call;
}
