// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace symm::cuda {

// One fatbin for each .cu file, each with code for several architectures; none in a build without nvcc.
std::span<const void* const> images();

}  // namespace symm::cuda
