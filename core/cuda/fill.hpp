// Copies of a value in memory of a device.
#pragma once

#include "core/cuda/driver.hpp"
#include "kernels/compare.hpp"

namespace symm::cuda {
// Issues the stores on `stream`. The context of the memory is current on this thread.
void issue_fill(const Driver& driver, CUdeviceptr to, const Copies& copies, CUstream stream);
}  // namespace symm::cuda
