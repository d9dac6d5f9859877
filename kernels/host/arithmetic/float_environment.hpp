// The caller may have set another rounding, flush-to-zero or traps (fast-math programs,
// machine-learning frameworks). The IEEE defaults hold during a reduction, because ranks
// with different settings would get different results. Compilers do not know that
// arithmetic depends on the register; so that no operation leaves the scope, memory is
// read and written inside of it.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace symm::host {
class FloatEnvironment {
 public:
#if defined(__x86_64__)
  explicit FloatEnvironment(bool wanted) noexcept {
    if (!wanted) return;
    saved_ = _mm_getcsr();
    // Writing the register is slow and hardly ever needed.
    changed_ = (saved_ & kControl) != kDefault;
    if (!changed_) return;
    _mm_setcsr(kDefault);
    asm volatile("" : : : "memory");
  }
  ~FloatEnvironment() {
    if (!changed_) return;
    asm volatile("" : : : "memory");
    _mm_setcsr(saved_);
  }

 private:
  // The bits that control rounding, exception masks, flush to zero and denormals are zero.
  static constexpr uint32_t kControl = 0xFFC0;
  static constexpr uint32_t kDefault = 0x1F80;
  uint32_t saved_ = 0;
  bool changed_ = false;
#elif defined(__aarch64__)
  explicit FloatEnvironment(bool wanted) noexcept {
    if (!wanted) return;
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    changed_ = saved_ != 0;
    if (changed_) asm volatile("msr fpcr, %0" : : "r"(uint64_t{0}) : "memory");
  }
  ~FloatEnvironment() {
    if (changed_) asm volatile("msr fpcr, %0" : : "r"(saved_) : "memory");
  }

 private:
  uint64_t saved_ = 0;
  bool changed_ = false;
#else
  explicit FloatEnvironment(bool) noexcept {}
#endif
 public:
  FloatEnvironment(FloatEnvironment&&) = delete;
};
}  // namespace symm::host
