// Settings that must be made before Highway is included, once per translation unit. symm uses
// Highway's headers only: its library (processor detection, hwy::Abort) is shared-only on some
// systems, and libsymm.so may need nothing but libc.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    defined(SYMM_SIMD_BASELINE_ONLY)
// A sanitizer finds at one width what it finds at all widths, and each target makes the longest
// file longer. The release tests run every width.
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
