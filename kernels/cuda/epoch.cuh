// Which half of the scratch a push or LL call uses: that of the parity of its epoch, which is the
// number of such calls before it.
//
// Invariant: when a call writes into a half, every rank is done with what the call before the
// last has left there. Call k + 2 uses the half of call k, and
//   1. a rank that has started call k + 2 has finished call k + 1, since kernels of a rank run
//      one after the other (begin.cuh);
//   2. to finish a call a rank needs data from every other rank, at first or second hand, so all
//      others have started call k + 1;
//   3. the kernel of call k + 1 starts after the kernel of call k has ended, so all others are
//      done with call k.
#pragma once

#include "kernels/cuda/memory.cuh"

namespace symm::cuda {
// Every block has a copy of the number of calls, and the blocks of a grid together advance all
// copies, so grids may differ from call to call.
__device__ __forceinline__ uint32_t current_epoch(const DeviceComm& comm) {
  return load_relaxed(&words_of(comm, comm.rank).epoch[blockIdx.x]);
}

// Ends a call that has changed halves `steps` times.
//
// Why the first thread of a block may let the next kernel be launched, for which it must have
// heard from all ranks (begin.cuh): it has a pack if any thread of the block has. In a call in
// which all ranks receive from all, its pack came from every rank; where there is a root, the
// first block has met after it had tokens of all.
__device__ __forceinline__ void end_epoch(
    const DeviceComm& comm, uint32_t epoch, uint32_t steps = 1) {
  if (threadIdx.x == 0) let_next_launch();

  // All threads have read the epoch.
  __syncthreads();
  ControlWords& mine = words_of(comm, comm.rank);
  for (uint32_t b = blockIdx.x + threadIdx.x * gridDim.x; b < kMaxBlocks;
      b += gridDim.x * blockDim.x) {
    mine.epoch[b] = epoch + steps;
  }
}
}  // namespace symm::cuda
