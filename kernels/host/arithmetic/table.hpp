// The kernels that were compiled, by instruction set. Highway's own dispatch needs its
// shared library; this needs nothing.
#pragma once

#include <array>

#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/arithmetic/simd.hpp"
#include "kernels/types.hpp"

namespace symm::host {
using Kernel = void (*)(const Reduction& reduction);
// `saturates`: the operands are partial results of f8, which are f32.
using FindKernel = Kernel (*)(DType dtype, Op op, bool saturates);

// The kernel of a type of two parts, for all instruction sets.
Kernel find_for_two_parts(DType dtype, Op op) noexcept;

// One entry per Simd; null where the instruction set was not compiled.
using KernelTable = std::array<FindKernel, kSimdCount>;
const KernelTable& kernel_table() noexcept;
}  // namespace symm::host
