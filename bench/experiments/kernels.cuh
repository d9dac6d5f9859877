// What the kernels of the questions share. Each leaves at a deadline of its own, so none can outlive its question.
#pragma once

#include "kernels/cuda/memory.cuh"

namespace experiments {
using symm::cuda::load_relaxed;
using symm::cuda::nanoseconds;
using symm::cuda::store_relaxed;

inline constexpr uint64_t kLimit = 10'000'000'000ULL;  // nanoseconds

enum class Ended : unsigned { not_yet, told, deadline };
__device__ inline void end(Ended* ended, Ended how) {
  store_relaxed(reinterpret_cast<unsigned*>(ended), static_cast<unsigned>(how));
}
}  // namespace experiments
