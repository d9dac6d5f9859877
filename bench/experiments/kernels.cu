// SPDX-License-Identifier: Apache-2.0
#include "bench/experiments/kernels.hpp"
#include "kernels/cuda/memory.cuh"
#include "tests/gpu/world.hpp"

namespace experiments {
namespace {

using symm::cuda::load_relaxed;
using symm::cuda::nanoseconds;
using symm::cuda::store_relaxed;

__device__ void end(Ended* ended, Ended how) { store_relaxed(reinterpret_cast<unsigned*>(ended), static_cast<unsigned>(how)); }

__global__ void count_up_kernel(unsigned* words) {
  const uint64_t deadline = nanoseconds() + kLimit;
  for (unsigned i = 1; (i & 1023U) != 0 || nanoseconds() < deadline; ++i) store_relaxed(words + blockIdx.x * kWatchedStride, i);
}

__global__ void watch_kernel(const unsigned* words, const Marks* marks, Seen* seen) {
  __shared__ volatile unsigned over;
  if (threadIdx.x == 0) over = 0;
  __syncthreads();
  if (threadIdx.x == kWatched) {  // a warp of its own, because the host's memory is far
    const uint64_t deadline = nanoseconds() + kLimit;
    uint64_t eof = 0;
    uint64_t pidfd = 0;
    while (over == 0) {
      if (eof == 0 && load_relaxed(&marks->eof) != 0) eof = nanoseconds();
      if (pidfd == 0 && load_relaxed(&marks->pidfd) != 0) pidfd = nanoseconds();
      if (load_relaxed(&marks->stop) != 0) over = static_cast<unsigned>(Ended::told);
      if (nanoseconds() > deadline) over = static_cast<unsigned>(Ended::deadline);
    }
    seen->eof_at = eof;
    seen->pidfd_at = pidfd;
    seen->ended = static_cast<Ended>(over);
  }
  if (threadIdx.x >= kWatched) return;
  unsigned value = 0;
  uint64_t before = nanoseconds();
  uint64_t old_until = 0;
  uint64_t new_from = 0;
  while (over == 0) {
    const uint64_t start = nanoseconds();
    const unsigned now = load_relaxed(words + threadIdx.x * kWatchedStride);
    if (now != value) {
      if (value == 0) store_relaxed(&seen->begun, 1U);
      old_until = before;
      new_from = nanoseconds();
      value = now;
    }
    before = start;
  }
  seen->value[threadIdx.x] = value;
  seen->old_until[threadIdx.x] = old_until;
  seen->new_from[threadIdx.x] = new_from;
}

__global__ void read_on_kernel(const unsigned* words, size_t count, unsigned expected, Reading* reading) {
  const uint64_t deadline = nanoseconds() + kLimit;
  __shared__ volatile unsigned over;
  if (threadIdx.x == 0) over = 0;
  __syncthreads();
  while (over == 0) {
    unsigned wrong = 0;
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count; i += size_t{gridDim.x} * blockDim.x)
      wrong += load_relaxed(words + i) != expected ? 1U : 0U;
    if (wrong != 0) atomicAdd_system(&reading->wrong, wrong);
    __syncthreads();
    if (threadIdx.x == 0) {
      if (blockIdx.x == 0) atomicAdd_system(&reading->rounds, 1U);
      if (load_relaxed(&reading->stop) != 0) over = static_cast<unsigned>(Ended::told);
      if (nanoseconds() > deadline) over = static_cast<unsigned>(Ended::deadline);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0 && blockIdx.x == 0) end(&reading->ended, static_cast<Ended>(over));
}

__global__ void leave_on_kernel(const unsigned* word, const unsigned* polled, unsigned period, Leaving* leaving) {
  const uint64_t deadline = nanoseconds() + kLimit;
  store_relaxed(&leaving->running, 1U);
  Ended how = Ended::not_yet;
  for (unsigned looks = 1; how == Ended::not_yet; ++looks) {
    if (load_relaxed(polled) != 0) how = Ended::deadline;  // nobody stores there
    if (looks % period != 0) continue;
    if (load_relaxed(word) != 0)
      how = Ended::told;
    else if (nanoseconds() > deadline)
      how = Ended::deadline;
  }
  end(&leaving->ended, how);
}

__global__ void play_kernel(const PingPong side, Played* played) {
  const uint64_t deadline = nanoseconds() + kLimit;
  unsigned looks = 0;
  unsigned since = 0;  // looks since the abort word was polled
  uint64_t start = 0;
  for (unsigned round = 1; round <= side.rounds; ++round) {
    if (round == side.rounds / 10) start = nanoseconds();  // the other side is there by then
    if (side.first != 0) store_relaxed(side.theirs, round);
    while (load_relaxed(side.mine) < round) {
      if (side.period != 0 && ++since >= side.period) {
        since = 0;
        if (load_relaxed(side.abort) != 0) return end(&played->ended, Ended::deadline);
      }
      if ((++looks & 0xFFFFU) == 0 && nanoseconds() > deadline) return end(&played->ended, Ended::deadline);
    }
    if (side.first == 0) store_relaxed(side.theirs, round);
  }
  played->nanoseconds = nanoseconds() - start;
  end(&played->ended, Ended::told);
}

template <Count count>
__global__ void __launch_bounds__(32) meet_kernel(const Meeting side) {
  symm::cuda::begin();
  if (threadIdx.x != 0) return;
  unsigned wanted;
  if constexpr (count == Count::stored) {
    const unsigned mark = load_relaxed(side.sent) + 1;
    wanted = load_relaxed(side.taken) + 1;
    symm::cuda::store_release(side.theirs, mark);
    store_relaxed(side.sent, mark);
  } else if constexpr (count == Count::claimed) {
    wanted = symm::cuda::claim(side.taken) + 1;
    symm::cuda::add_release(side.theirs, 1U);
  } else {
    symm::cuda::add_release(side.theirs, 1U);
    wanted = symm::cuda::claim(side.taken) + 1;
  }
  uint64_t deadline = 0;
  for (unsigned looks = 1; static_cast<int>(load_relaxed(side.mine) - wanted) < 0; ++looks) {
    if ((looks & 1023U) != 0) continue;
    const uint64_t now = nanoseconds();
    if (deadline == 0) deadline = now + kLimit;
    if (now < deadline) continue;
    store_relaxed(side.late, 1U);
    return;
  }
  symm::cuda::load_acquire(side.mine);
  symm::cuda::let_next_launch();
  if constexpr (count == Count::stored) store_relaxed(side.taken, wanted);
}
constexpr void (*kMeet[])(Meeting) = {meet_kernel<Count::stored>, meet_kernel<Count::claimed>, meet_kernel<Count::told>};

void launched(const char* name) { gpu::cuda(cudaGetLastError(), name); }

}  // namespace

void load_kernels() {
  cudaFuncAttributes attributes;
  for (const void* kernel : {reinterpret_cast<const void*>(count_up_kernel), reinterpret_cast<const void*>(watch_kernel),
                             reinterpret_cast<const void*>(read_on_kernel), reinterpret_cast<const void*>(leave_on_kernel),
                             reinterpret_cast<const void*>(play_kernel), reinterpret_cast<const void*>(kMeet[0]),
                             reinterpret_cast<const void*>(kMeet[1]), reinterpret_cast<const void*>(kMeet[2])})
    gpu::cuda(cudaFuncGetAttributes(&attributes, kernel), "load a kernel");
}

void count_up(unsigned* words, cudaStream_t stream) {
  count_up_kernel<<<kWatched, 1, 0, stream>>>(words);
  launched("count_up");
}

void watch(const unsigned* words, const Marks* marks, Seen* seen, cudaStream_t stream) {
  watch_kernel<<<1, kWatched + 32, 0, stream>>>(words, marks, seen);
  launched("watch");
}

void read_on(const unsigned* words, size_t count, unsigned expected, Reading* reading, cudaStream_t stream) {
  read_on_kernel<<<64, 256, 0, stream>>>(words, count, expected, reading);
  launched("read_on");
}

void leave_on(const unsigned* word, const unsigned* polled, unsigned period, Leaving* leaving, cudaStream_t stream) {
  leave_on_kernel<<<1, 1, 0, stream>>>(word, polled, period, leaving);
  launched("leave_on");
}

void play(const PingPong& side, Played* played, cudaStream_t stream) {
  play_kernel<<<1, 1, 0, stream>>>(side, played);
  launched("play");
}

void meet(Count count, const Meeting& side, cudaStream_t stream) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = {1, 1, 1};
  config.blockDim = {32, 1, 1};
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  gpu::cuda(cudaLaunchKernelEx(&config, kMeet[static_cast<int>(count)], side), "meet");
}

}  // namespace experiments
