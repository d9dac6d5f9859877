// Which instruction set the arithmetic uses. Results have
// the same bits on all of them; tests force each in turn.
#pragma once

namespace symm::host {
enum class Simd : int { scalar = 0, sse4 = 1, avx2 = 2, avx512 = 3, neon = 4 };
inline constexpr int kSimdCount = 5;

const char* simd_name(Simd simd) noexcept;  // "avx2"

// This library contains code for it and this processor (and system) runs it.
bool is_supported(Simd simd) noexcept;

// The one in use: the best supported, unless use_simd() chose another.
Simd current_simd() noexcept;

// Use `simd` from now on, in the whole process; false
// if it is not supported, and then nothing changes.
bool use_simd(Simd simd) noexcept;
}  // namespace symm::host
