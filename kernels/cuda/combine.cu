// What has come to this rank by whatever carries it between machines: operands, or such as lie mapped on its own, combined in
// rank order; and what others are about to do.
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/wait.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
template <class Pack> __device__ __forceinline__ void for_packs(const CollectiveArgs& call, const Pack& pack) {
  for (uint64_t q = blockIdx.x * blockDim.x + threadIdx.x; q < packs_of(call.unit); q += gridDim.x * blockDim.x) pack(q);
}
__device__ __forceinline__ uint4 operand(const CollectiveArgs& call, int rank, uint64_t q) {
  return load_pack(reinterpret_cast<const char*>(call.send_block[rank]), call.unit, q);
}

template <class Arithmetic> __device__ __forceinline__ void whole(const CombineArgs& args) {
  for_packs(args.call, [&](uint64_t q) {
    const auto load = [&](int rank) { return operand(args.call, rank, q); };
    store_pack(
        reinterpret_cast<char*>(args.call.recv), args.call.unit, q, Arithmetic::run_loaded(load, args.operands, args.call));
  });
}

// A part of all operands, whose sums are as wide as they are added. Messages that are no whole number of packs are rounded.
template <class Type, class Operation> __device__ void part(const CombineArgs& args) {
  using Wide = typename Type::Wide;
  constexpr int kCount = Elements<Type>::kCount, kWider = sizeof(Wide) / sizeof(typename Type::Element);
  for_packs(args.call, [&](uint64_t q) {
    union {
      Wide at[kCount];
      uint4 pack[kWider];
    } sums;
    Elements<Type> in;
    if (args.before == 0) {
      in.pack = operand(args.call, 0, q);
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums.at[i] = Type::read(in.at[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kWider; ++i) sums.pack[i] = reinterpret_cast<const uint4*>(args.before)[q * kWider + i];
    }
#pragma unroll 1
    for (int rank = args.before == 0 ? 1 : 0; rank < args.operands; ++rank) {
      in.pack = operand(args.call, rank, q);
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums.at[i] = Operation::combine(sums.at[i], Type::read(in.at[i]));
    }
    if (args.unrounded != 0) {
#pragma unroll
      for (int i = 0; i < kWider; ++i) reinterpret_cast<uint4*>(args.call.recv)[q * kWider + i] = sums.pack[i];
      return;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const bool is_average = static_cast<Op>(args.call.op) == Op::avg;
      in.at[i] = Type::write(is_average ? over(sums.at[i], args.call.comm.size) : sums.at[i]);
    }
    store_pack(reinterpret_cast<char*>(args.call.recv), args.call.unit, q, in.pack);
  });
}
template <class Type> __device__ __forceinline__ void part(const CombineArgs& args) {
  if (static_cast<Op>(args.call.op) == Op::prod) part<Type, Product>(args);
  else part<Type, Sum>(args);
}
}  // namespace

extern "C" __global__ void __launch_bounds__(256) symm_combine(const __grid_constant__ CombineArgs args) {
  begin();
  if (args.operands == 0) return;
  const auto dtype = static_cast<DType>(args.call.dtype);
  const bool is_average = static_cast<Op>(args.call.op) == Op::avg, is_sum = static_cast<Op>(args.call.op) == Op::sum;
  if (args.before != 0 || args.unrounded != 0 || (is_average && args.operands != args.call.comm.size)) {
    switch (dtype) {
      case DType::f32: return part<Whole<float>>(args);
      case DType::f64: return part<Whole<double>>(args);
      case DType::f16: return part<F16>(args);
      case DType::bf16: return part<Bf16>(args);
      case DType::f8e4m3: return part<F8e4m3>(args);
      case DType::f8e5m2: return part<F8e5m2>(args);
      default: return;  // integers are no sums of floats
    }
  }
  const bool hot = is_sum || is_average;
  if (hot && dtype == DType::bf16) return whole<Hot<Bf16>>(args);
  if (hot && dtype == DType::f16) return whole<Hot<F16>>(args);
  if (hot && dtype == DType::f32) return whole<Hot<Whole<float>>>(args);
  whole<Any>(args);
}

extern "C" __global__ void __launch_bounds__(32) symm_compare(const __grid_constant__ ComparisonArgs args) {
  begin();
  if (threadIdx.x != 0) return;
  auto* said = reinterpret_cast<uint64_t*>(args.said);
  for (int rank = args.tells != 0 ? args.comm.size : 0; rank < args.comm.size; ++rank) {
    const uint64_t detail = said[2 * rank], count = said[2 * rank + 1];
    if (detail != args.detail || count != args.count)
      return report(args.comm, WaitError::mismatch, rank, 0, 0, 0, detail, count, args.detail, args.count);
  }
  if (args.tells == 0) return;
  said[2 * args.comm.rank] = args.detail;
  said[2 * args.comm.rank + 1] = args.count;
}
