// The instruction set that the arithmetic uses. Results have the same bits on all of
// them; tests force each in turn.
#pragma once

namespace symm::host {
enum class Simd : int { scalar = 0, sse4 = 1, avx2 = 2, avx512 = 3, neon = 4 };
inline constexpr int kSimdCount = 5;

const char* simd_name(Simd simd) noexcept;  // "avx2"

// Whether this library contains code for `simd` and this processor (and system) runs it.
bool is_supported(Simd simd) noexcept;

// The instruction set in use: the best one supported, unless use_simd() chose another.
Simd current_simd() noexcept;

// Uses `simd` from now on, in the whole process. Returns false, and changes nothing,
// if it is not supported.
bool use_simd(Simd simd) noexcept;
}  // namespace symm::host
