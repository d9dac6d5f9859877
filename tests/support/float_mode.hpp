// What the floating-point arithmetic of a thread does: how it rounds, whether numbers flush to
// zero, and whether exceptions trap.
#pragma once

#include <cstdint>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace support {
struct FloatMode {
  const char* name;
  uint64_t control;
};

#if defined(__x86_64__)
inline constexpr FloatMode kDefaultMode{"the default", 0x1F80};

inline std::vector<FloatMode> strange_modes() {
  return {{"rounds down", 0x3F80}, {"rounds up", 0x5F80}, {"rounds to zero", 0x7F80},
      {"flushes subnormal numbers to zero", 0x9FC0}, {"traps", 0x0000},
      {"rounds up, flushes and traps", 0xC040}};
}

// Flags of what has happened are no part of the mode.
inline uint64_t current_mode() { return _mm_getcsr() & 0xFFC0; }

inline void set_mode(uint64_t control) { _mm_setcsr(static_cast<unsigned>(control)); }
#elif defined(__aarch64__)
inline constexpr FloatMode kDefaultMode{"the default", 0};

// Few processors of this kind trap.
inline std::vector<FloatMode> strange_modes() {
  return {{"rounds up", 1U << 22}, {"rounds down", 2U << 22}, {"rounds to zero", 3U << 22},
      {"flushes subnormal numbers to zero", 1U << 24}};
}

inline uint64_t current_mode() {
  uint64_t control = 0;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return control;
}

inline void set_mode(uint64_t control) { asm volatile("msr fpcr, %0" : : "r"(control) : "memory"); }
#endif

// The mode of this thread, and of threads that it starts, for the life of this object.
class InMode {
 public:
  explicit InMode(const FloatMode& mode) : before_(current_mode()) { set_mode(mode.control); }
  ~InMode() { set_mode(before_); }
  InMode(InMode&&) = delete;

 private:
  const uint64_t before_;
};
}  // namespace support
