// Programmatic dependent launch, on devices of compute capability 9.0 and later: the host may
// have a kernel launched before the one ahead of it on the stream has ended, which takes the
// launch off the path of small messages. Without that launch attribute both instructions do
// nothing.
#pragma once

namespace symm::cuda {
// Every kernel begins with this, before it touches memory: it waits until the kernel ahead has
// ended and what that wrote is in view. So the proofs that begin with "the kernel starts after
// another has ended" hold with early launches, too.
__device__ __forceinline__ void begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel come onto the device when all blocks have said so, or ended; the first
// thread to say so speaks for its block.
//
// Invariant: a thread that calls this has heard from all ranks. The next kernel may be any
// library's, and may fill the device. If another rank still waited for a kernel of this rank
// that is to come, that kernel might find no room. But when all ranks have been heard from, they
// have all come to this kernel, so nothing that they wait for is still to come here.
__device__ __forceinline__ void let_next_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
}  // namespace symm::cuda
