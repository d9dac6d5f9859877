// Which half of the scratch a push or LL call uses. A call may write into a half when
// every rank is done with what the call before the last left there; and it is: to
// finish a call a rank needs data from every other rank, at first or second hand, so a
// rank that has started call k + 2 has finished k + 1, for which all others had to
// start k + 1, which is a kernel that starts after kernel k has ended (begin.cuh).
#pragma once

#include "kernels/cuda/memory.cuh"

namespace symm::cuda {
// Every block has a copy of the number of calls, and the blocks of a grid together
// advance all copies, so grids may differ from call to call.
__device__ __forceinline__ uint32_t current_epoch(const DeviceComm& comm) {
  return load_relaxed(&words_of(comm, comm.rank).epoch[blockIdx.x]);
}

// `steps`: how often the halves were changed. The first thread of a block has a pack if
// any has: in a call of all with all it has heard from every rank, and where there is a
// root the first block has met after it had tokens of all.
__device__ __forceinline__ void end_epoch(
    const DeviceComm& comm, uint32_t epoch, uint32_t steps = 1) {
  if (threadIdx.x == 0) let_next_launch();
  __syncthreads();  // all threads have read it
  ControlWords& mine = words_of(comm, comm.rank);
  for (uint32_t b = blockIdx.x + threadIdx.x * gridDim.x; b < kMaxBlocks;
      b += gridDim.x * blockDim.x) {
    mine.epoch[b] = epoch + steps;
  }
}
}  // namespace symm::cuda
