// Stands in for the kernels' arithmetic when they are compiled for the host. It has only sums of
// f32, in the order of ranks or in that of the tree.
#pragma once

#ifdef SYMM_REAL_ARITHMETIC
#include "../../../../../../kernels/cuda/arithmetic.cuh"
#else
#include <vector>

#include "kernels/cuda/memory.cuh"
#include "kernels/types.hpp"

namespace symm::cuda {
namespace model {
float sum_of(const std::vector<float>& numbers, bool in_tree);  // world.hpp
}  // namespace model

template <int>
uint4 combine_any(const uint4* operands, int ranks, const CollectiveArgs& args) {
  const auto sum = [&](auto word) {
    std::vector<float> numbers;
    for (int r = 0; r < ranks; ++r) {
      numbers.push_back(std::bit_cast<float>(operands[r].*word));
    }
    return std::bit_cast<uint32_t>(model::sum_of(numbers, args.in_tree != 0));
  };
  return {sum(&uint4::x), sum(&uint4::y), sum(&uint4::z), sum(&uint4::w)};
}

struct Any {
  template <int kRanks>
  static int ranks(const DeviceComm& comm) {
    return comm.size;
  }
  static uint4 run(const uint4* operands, int ranks, const CollectiveArgs& args) {
    return combine_any<kRoom>(operands, ranks, args);
  }
};
}  // namespace symm::cuda

#ifndef SYMM_FOR_ARITHMETICS
#define SYMM_FOR_ARITHMETICS(KERNEL) KERNEL(any, Any, 2) KERNEL(any, Any, 4)
#define SYMM_FOR_ARITHMETICS_OF_MORE(KERNEL) KERNEL(any, Any, 4)
#endif

#endif
