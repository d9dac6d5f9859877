// SPDX-License-Identifier: Apache-2.0
//
// Barrier, signals and the comparison of arguments. One warp each: lane r deals with rank r. Arguments of zeros do nothing: so
// the kernels are made ready.
#include "kernels/cuda/wait.cuh"

using namespace symm::cuda;

// Counters of both sides live in device memory, so a replayed graph goes on counting where the last replay stopped.
extern "C" __global__ void __launch_bounds__(32) symm_barrier(const __grid_constant__ BarrierArgs args) {
  begin();
  const DeviceComm& comm = args.comm;
  const int peer = static_cast<int>(threadIdx.x);
  if (peer >= comm.size || (args.ranks >> peer & 1U) == 0 || peer == comm.rank) return;
  ControlWords& mine = words_of(comm, comm.rank);
  uint32_t& sent = mine.barrier_sent[args.channel][peer];
  uint32_t& taken = mine.barrier_taken[args.channel][peer];
  // Asked for before the fence, which would wait for them otherwise.
  const uint32_t mark = load_relaxed(&sent) + 1;
  const uint32_t wanted = load_relaxed(&taken) + 1;
  store_release(&words_of(comm, peer).from_peers.barrier[args.channel][comm.rank], mark);
  SpinState spin;
  await_count(comm, spin, &mine.from_peers.barrier[args.channel][peer], wanted, peer, args.channel);
  let_next_launch();
  sent = mark;
  taken = wanted;
}

// An addition, so that several streams of this rank may signal at once.
extern "C" __global__ void __launch_bounds__(32) symm_put_signal(const __grid_constant__ SignalArgs args) {
  begin();
  if (threadIdx.x != 0 || args.word == 0) return;
  asm volatile("red.release.sys.global.add.u32 [%0], 1;" ::"l"(args.word) : "memory");
}

extern "C" __global__ void __launch_bounds__(32) symm_wait_signal(const __grid_constant__ SignalArgs args) {
  begin();
  if (threadIdx.x != 0 || args.word == 0) return;
  auto& taken = *reinterpret_cast<uint32_t*>(args.taken);
  SpinState spin;
  if (await_count(args.comm, spin, reinterpret_cast<const uint32_t*>(args.word), taken + 1, args.peer, args.channel)) ++taken;
  let_next_launch();
}

extern "C" __global__ void __launch_bounds__(32) symm_write32(const __grid_constant__ WriteArgs args) {
  begin();
  if (threadIdx.x != 0 || args.word == 0) return;
  store_release(reinterpret_cast<uint32_t*>(args.word), args.value);
}

// Each rank tells each other what it is about to do; whoever sees a difference reports it. The flag rides with the data: 64-bit
// words of {number of the call, 32 bits}.
extern "C" __global__ void __launch_bounds__(32) symm_check(const __grid_constant__ CheckArgs args) {
  begin();
  const DeviceComm& comm = args.comm;
  if (comm.size == 0) return;
  const int peer = static_cast<int>(threadIdx.x);
  ControlWords& mine = words_of(comm, comm.rank);
  const uint32_t call = load_relaxed(&mine.check_epoch) + 1;
  __syncwarp();
  if (peer < comm.size && peer != comm.rank) {
    const uint32_t parts[4] = {static_cast<uint32_t>(args.detail), static_cast<uint32_t>(args.detail >> 32),
                               static_cast<uint32_t>(args.count), static_cast<uint32_t>(args.count >> 32)};
    uint64_t* out = words_of(comm, peer).from_peers.check[call & 1U][comm.rank].word;
    for (int i = 0; i < 4; ++i) store_relaxed(out + i, static_cast<uint64_t>(call) << 32 | parts[i]);
    const uint64_t* in = mine.from_peers.check[call & 1U][peer].word;
    uint32_t theirs[4];
    SpinState spin;
    bool ok = true;
    for (int i = 0; i < 4 && ok; ++i) {
      uint64_t cell;
      while (ok && static_cast<uint32_t>((cell = load_relaxed(in + i)) >> 32) != call) {
        ok = keep_waiting(comm, spin, peer, 0, call, static_cast<uint32_t>(cell >> 32));
      }
      theirs[i] = static_cast<uint32_t>(cell);
    }
    if (ok) {
      const uint64_t detail = static_cast<uint64_t>(theirs[1]) << 32 | theirs[0];
      const uint64_t count = static_cast<uint64_t>(theirs[3]) << 32 | theirs[2];
      if (detail != args.detail || count != args.count) {
        report(comm, WaitError::mismatch, peer, 0, 0, 0, detail, count, args.detail, args.count);
      }
    }
  }
  __syncwarp();
  if (threadIdx.x == 0) mine.check_epoch = call;
}
