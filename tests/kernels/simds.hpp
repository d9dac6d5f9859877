// SPDX-License-Identifier: Apache-2.0
//
// The instruction sets that a processor of this architecture may have. A test of one that this very processor lacks is skipped.
#pragma once

#include "kernels/host/arithmetic/simd.hpp"

namespace symm::host {

#if defined(__aarch64__)
inline constexpr Simd kSimds[] = {Simd::scalar, Simd::neon};
#else
inline constexpr Simd kSimds[] = {Simd::scalar, Simd::sse4, Simd::avx2, Simd::avx512};
#endif

}  // namespace symm::host
