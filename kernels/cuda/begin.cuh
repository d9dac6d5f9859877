// SPDX-License-Identifier: Apache-2.0
//
// Programmatic dependent launch, on devices of 9.0 and later: the host may have a kernel launched before the one ahead of it on
// the stream has ended, which takes the launch off the path of small messages. Without that launch attribute both instructions do
// nothing.
#pragma once

namespace symm::cuda {

// How every kernel begins, before it touches memory: wait until the kernel ahead has ended and what it wrote is in view. So all
// that is said of "a kernel that starts after another has ended" stays true.
__device__ __forceinline__ void begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// For a kernel that waits for no rank any more: the next one may come onto the device. Not earlier, because that one may be
// anybody's, and fill the device while a kernel that another rank waits for has no room.
__device__ __forceinline__ void let_next_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace symm::cuda
