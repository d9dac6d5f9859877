// Stands in for CUDA's header when kernels are compiled for the host, with what
// arithmetic.cuh uses of it and of CUDA's arithmetic.
#pragma once

#include <bit>
#include <cmath>

#include "tests/kernels/reference.hpp"

inline float __uint_as_float(unsigned v) { return std::bit_cast<float>(v); }
inline unsigned __float_as_uint(float v) { return std::bit_cast<unsigned>(v); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }

// Values of these types are their bits.
inline uint16_t __ushort_as_half(uint16_t code) { return code; }
inline float __half2float(uint16_t code) { return symm::reference::decode(symm::DType::f16, code); }
inline float __float2half_rn(float v) { return v; }
inline uint16_t __half_as_ushort(float v) {
  return static_cast<uint16_t>(symm::reference::encode(symm::DType::f16, v));
}
