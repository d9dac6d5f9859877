// Stands in for the kernels' arithmetic when they are compiled for the host. It has only sums of
// f32, in the order of ranks.
#pragma once

#ifdef SYMM_REAL_ARITHMETIC
#include "../../../../../../kernels/cuda/arithmetic.cuh"
#else
#include "kernels/cuda/memory.cuh"
#include "kernels/types.hpp"

namespace symm::cuda {
inline uint4 combine_any(const uint4* operands, int ranks, DType, Op) {
  const auto sum = [&](auto word) {
    auto total = std::bit_cast<float>(operands[0].*word);
    for (int r = 1; r < ranks; ++r) {
      total += std::bit_cast<float>(operands[r].*word);
    }
    return std::bit_cast<uint32_t>(total);
  };
  return {sum(&uint4::x), sum(&uint4::y), sum(&uint4::z), sum(&uint4::w)};
}

struct Any {
  template <int kRanks>
  static int ranks(const DeviceComm& comm) {
    return comm.size;
  }
  static uint4 run(const uint4* operands, int ranks, const CollectiveArgs&) {
    return combine_any(operands, ranks, {}, {});
  }
};
}  // namespace symm::cuda

#ifndef SYMM_FOR_ARITHMETICS
#define SYMM_FOR_ARITHMETICS(KERNEL) KERNEL(any, Any, 2) KERNEL(any, Any, 4)
#define SYMM_FOR_ARITHMETICS_OF_MORE(KERNEL) KERNEL(any, Any, 4)
#endif

#endif
