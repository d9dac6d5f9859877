// Chooses the instruction set of the arithmetic.
#include "kernels/host/arithmetic/simd.hpp"

#include <atomic>
#include <cstddef>

#include "kernels/host/arithmetic/table.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace symm::host {
namespace {
#if defined(__x86_64__)
bool has_f16c() noexcept {  // not every compiler's __builtin_cpu_supports() knows the name
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & (1U << 29)) != 0;
}

// Whether the processor has all instructions that Highway lets the compiler use for the target, and
// the system saves the registers.
bool processor_has(Simd simd) noexcept {
  __builtin_cpu_init();
  const bool sse4 = __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("sse4.2") &&
                    __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("pclmul") &&
                    __builtin_cpu_supports("aes");
  const bool avx2 = sse4 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd");

  switch (simd) {
    case Simd::scalar: return true;
    case Simd::sse4: return sse4;
    case Simd::avx2: return avx2;
    case Simd::avx512: return avx512;
    case Simd::neon: return false;
  }

  return false;
}
#else
// On other processors only the target that the compiler may use everywhere is built.
bool processor_has(Simd) noexcept { return true; }
#endif

int best() noexcept {
  for (const Simd simd : {Simd::avx512, Simd::avx2, Simd::sse4, Simd::neon}) {
    if (is_supported(simd)) return static_cast<int>(simd);
  }
  return static_cast<int>(Simd::scalar);
}

std::atomic<int>& chosen() noexcept {
  static std::atomic<int> simd{best()};
  return simd;
}
}  // namespace

const char* simd_name(Simd simd) noexcept {
  switch (simd) {
    case Simd::scalar: return "scalar";
    case Simd::sse4: return "sse4";
    case Simd::avx2: return "avx2";
    case Simd::avx512: return "avx512";
    case Simd::neon: return "neon";
  }
  return "?";
}

bool is_supported(Simd simd) noexcept {
  return kernel_table()[static_cast<size_t>(simd)] && processor_has(simd);
}

Simd current_simd() noexcept { return static_cast<Simd>(chosen().load(std::memory_order_relaxed)); }

bool use_simd(Simd simd) noexcept {
  if (!is_supported(simd)) return false;
  chosen().store(static_cast<int>(simd), std::memory_order_relaxed);
  return true;
}
}  // namespace symm::host
