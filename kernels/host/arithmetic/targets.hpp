// SYMM_TARGETS(function): the address of N_<TARGET>::function per Simd, null for those that were not compiled.
// SYMM_TABLE(Table, name, function): the function `name`, which has the Table of them.
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

#define SYMM_TABLE(Table, name, function)                 \
  const symm::host::Table& symm::host::name() noexcept {  \
    static constexpr Table table{SYMM_TARGETS(function)}; \
    return table;                                         \
  }
