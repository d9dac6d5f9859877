// Stands in for CUDA's header when kernels are compiled for the host, with what arithmetic.cuh uses
// of it.
#pragma once

#include "cuda_fp16.h"

inline float __float2bfloat16_rn(float v) { return v; }
inline uint16_t __bfloat16_as_ushort(float v) {
  return static_cast<uint16_t>(symm::reference::encode(symm::DType::bf16, v));
}
