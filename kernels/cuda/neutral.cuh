// Reductions of the first ranks, of which there may be none: then the result is neutral.
#pragma once

#include "kernels/collective.hpp"
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/neutral.hpp"

namespace symm::cuda {
// Computed when a kernel is compiled, since neutral_words() is a function of the host.
template <DType kDtype, Op kOp>
inline constexpr uint64_t kLowNeutralWord = neutral_words(kDtype, kOp).low;
template <DType kDtype, Op kOp>
inline constexpr uint64_t kHighNeutralWord = neutral_words(kDtype, kOp).high;

template <DType kDtype>
__device__ __forceinline__ NeutralWords neutral_words_of(Op op) {
  switch (op) {
#define SYMM_NEUTRAL(name, c_name, value) \
  case Op::name: return {kLowNeutralWord<kDtype, Op::name>, kHighNeutralWord<kDtype, Op::name>};
    SYMM_OPS(SYMM_NEUTRAL)
#undef SYMM_NEUTRAL
  }
  return {};
}

// A pack of neutral elements, which a reduction of no operands gives.
static __device__ __noinline__ uint4 neutral_pack(DType dtype, Op op) {
  NeutralWords words{};
  switch (dtype) {
#define SYMM_NEUTRAL(name, c_name, value) \
  case DType::name: words = neutral_words_of<DType::name>(op); break;
    SYMM_DTYPES(SYMM_NEUTRAL)
#undef SYMM_NEUTRAL
  }
  return {static_cast<uint32_t>(words.low), static_cast<uint32_t>(words.low >> 32),
      static_cast<uint32_t>(words.high), static_cast<uint32_t>(words.high >> 32)};
}

// The number of ranks, from rank 0 on, whose operands make the result of a scan.
__device__ __forceinline__ int ranks_scanned(Collective collective, int rank) {
  return collective == Collective::exscan ? rank : rank + 1;
}

// Combines the operands of the first `ranks` ranks, of which there may be none.
template <int kRanks>
__device__ __forceinline__ uint4 combine_first(
    const uint4* operands, int ranks, const CollectiveArgs& args) {
  if (ranks == 0) return neutral_pack(static_cast<DType>(args.dtype), static_cast<Op>(args.op));
  return combine_any<kRanks>(operands, ranks, args);
}
}  // namespace symm::cuda
