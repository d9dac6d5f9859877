// SPDX-License-Identifier: Apache-2.0
//
// Only preprocessed: one line "simd_target NAME" for each instruction set for which Highway generates code here.
#include <hwy/detect_targets.h>

#define SYMM_HAS(target) (((HWY_TARGETS) & (target)) != 0)

#if SYMM_HAS(HWY_AVX3_DL)
simd_target AVX3_DL
#endif
#if SYMM_HAS(HWY_AVX3)
simd_target AVX3
#endif
#if SYMM_HAS(HWY_AVX2)
simd_target AVX2
#endif
#if SYMM_HAS(HWY_SSE4)
simd_target SSE4
#endif
#if SYMM_HAS(HWY_SSSE3)
simd_target SSSE3
#endif
#if SYMM_HAS(HWY_SVE2)
simd_target SVE2
#endif
#if SYMM_HAS(HWY_SVE)
simd_target SVE
#endif
#if SYMM_HAS(HWY_NEON)
simd_target NEON
#endif
#if SYMM_HAS(HWY_RVV)
simd_target RVV
#endif
#if SYMM_HAS(HWY_SCALAR) || SYMM_HAS(HWY_EMU128)
simd_target SCALAR
#endif
