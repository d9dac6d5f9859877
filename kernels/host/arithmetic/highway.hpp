// What has to be settled before Highway is included, once per translation unit. Only
// its headers are used: its library (processor detection, hwy::Abort) is shared-only on
// some systems, and ours may need nothing but libc.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    defined(SYMM_SIMD_BASELINE_ONLY)
// What a sanitizer finds, it finds at one width; the release tests run them all. Each
// target costs it a minute of compiling.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#endif
#ifndef HWY_BROKEN_EMU128  // the same fallback with every compiler
#define HWY_BROKEN_EMU128 1
#endif
#include <hwy/base.h>

#undef HWY_ABORT
#define HWY_ABORT(...) __builtin_trap()
