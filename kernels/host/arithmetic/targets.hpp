// SPDX-License-Identifier: Apache-2.0
//
// SYMM_TARGETS(function): the address of N_<TARGET>::function per Simd, null for those that were not compiled.
#pragma once

#if HWY_TARGETS & HWY_SCALAR
#define SYMM_IF_SCALAR(function) &N_SCALAR::function
#else
#define SYMM_IF_SCALAR(function) nullptr
#endif
#if HWY_TARGETS & HWY_SSE4
#define SYMM_IF_SSE4(function) &N_SSE4::function
#else
#define SYMM_IF_SSE4(function) nullptr
#endif
#if HWY_TARGETS & HWY_AVX2
#define SYMM_IF_AVX2(function) &N_AVX2::function
#else
#define SYMM_IF_AVX2(function) nullptr
#endif
#if HWY_TARGETS & HWY_AVX3
#define SYMM_IF_AVX512(function) &N_AVX3::function
#else
#define SYMM_IF_AVX512(function) nullptr
#endif
#if HWY_TARGETS & HWY_NEON
#define SYMM_IF_NEON(function) &N_NEON::function
#else
#define SYMM_IF_NEON(function) nullptr
#endif

#define SYMM_TARGETS(function)                                                                                                   \
  {                                                                                                                              \
    {                                                                                                                            \
      SYMM_IF_SCALAR(function), SYMM_IF_SSE4(function), SYMM_IF_AVX2(function), SYMM_IF_AVX512(function), SYMM_IF_NEON(function) \
    }                                                                                                                            \
  }
