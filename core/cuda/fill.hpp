// Copies of a value in memory of a device.
#pragma once

#include <cstddef>

#include "core/cuda/driver.hpp"
#include "kernels/compare.hpp"
#include "kernels/neutral.hpp"

namespace symm::cuda {
// Issues the stores on `stream`. The context of the memory is current on this thread.
void issue_fill(const Driver& driver, CUdeviceptr to, const Copies& copies, CUstream stream);
// `count` values of 16 bytes.
void issue_fill(
    const Driver& driver, CUdeviceptr to, const NeutralWords& value, size_t count, CUstream stream);
}  // namespace symm::cuda
