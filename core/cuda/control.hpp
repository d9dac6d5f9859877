// A rank's control block (kernels/cuda/args.hpp).
#pragma once

#include <memory>

#include "core/backend/plan_table.hpp"
#include "core/cuda/allocation.hpp"
#include "core/cuda/device.hpp"
#include "kernels/cuda/layout.hpp"
#include "kernels/cuda/tuning.hpp"

namespace symm::cuda {
Tuning tuning_of(const PlanValues& values);

// All zeros, except for the cells that push kernels poll, which are all ones when they are free.
std::shared_ptr<Allocation> create_control(
    const std::shared_ptr<Device>& device, int size, const Layout& layout);
}  // namespace symm::cuda
