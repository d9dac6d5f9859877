// Programmatic dependent launch, on devices of 9.0 and later: the host
// may have a kernel launched before the one ahead of it on the stream
// has ended, which takes the launch off the path of small messages.
// Without that launch attribute both instructions do nothing.
#pragma once

namespace symm::cuda {
// How every kernel begins, before it touches memory: wait until the kernel ahead has
// ended and what it wrote is in view. So all that is said of "a kernel that starts
// after another has ended" stays true.
__device__ __forceinline__ void begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The next kernel may come onto the device when all blocks have said so, or
// ended; the first thread to say it speaks for its block. It may be
// anybody's, and fill the device while a kernel that another rank waits for
// has no room. So who says it has heard from all ranks: they have all come
// to this kernel, and nothing that they wait for is still to come here.
__device__ __forceinline__ void let_next_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
}  // namespace symm::cuda
