// The steps before and after the plain calls of which a scaled call is made
// (kernels/scaled_call.hpp): elements are widened, or narrowed, and multiplied while they are
// wide. Also a reduction of bools by one rank, and copies of bytes that stay on a rank.
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/cuda/pipeline.cuh"

using namespace symm;
using namespace symm::cuda;

namespace {
// Takes as many elements at a time as one pack of the narrower type has.
template <class From, class To>
__device__ __forceinline__ void run(const ConvertArgs& args) {
  using W = typename From::Wide;
  constexpr int kFrom = Elements<From>::kCount;
  constexpr int kTo = Elements<To>::kCount;
  constexpr int kCount = kFrom > kTo ? kFrom : kTo;
  const W factor = static_cast<W>(
      args.pointer != 0 ? *reinterpret_cast<const float*>(args.pointer) : args.factor);
  const uint64_t from_bytes = args.count * sizeof(typename From::Element);
  const uint64_t to_bytes = args.count * sizeof(typename To::Element);
  const uint64_t per_block = (args.count + kCount - 1) / kCount;
  const uint64_t stride = gridDim.x * blockDim.x;

  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < per_block * args.blocks;
      i += stride) {
    const uint64_t block = args.blocks == 1 ? 0 : i / per_block;
    const uint64_t q = i - block * per_block;
    const auto* from = reinterpret_cast<const char*>(args.from + block * args.stride);
    auto* to = reinterpret_cast<char*>(args.to + block * to_bytes);

    Elements<From> in[kCount / kFrom];
    Elements<To> out[kCount / kTo];
#pragma unroll
    for (int p = 0; p < kCount / kFrom; ++p) {
      const uint64_t at = q * (kCount / kFrom) + static_cast<uint64_t>(p);
      in[p].pack = at * kPack < from_bytes ? load_pack(from, from_bytes, at) : uint4{};
    }
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      out[e / kTo].at[e % kTo] =
          To::write(Product::combine(From::read(in[e / kFrom].at[e % kFrom]), factor));
    }
#pragma unroll
    for (int p = 0; p < kCount / kTo; ++p) {
      const uint64_t at = q * (kCount / kTo) + static_cast<uint64_t>(p);
      if (at * kPack < to_bytes) store_pack(to, to_bytes, at, out[p].pack);
    }
  }
}

template <class Narrow>
__device__ __forceinline__ void either_way(const ConvertArgs& args, bool narrows) {
  if (narrows) {
    run<NativeElement<float>, Narrow>(args);
  } else {
    run<Narrow, NativeElement<float>>(args);
  }
}
}  // namespace

// A call without a factor has the factor 1, by which all numbers stay as they are.
extern "C" __global__ void __launch_bounds__(256)
    symm_convert(const __grid_constant__ ConvertArgs args) {
  begin();
  if (args.count == 0) return;  // a launch to make it ready

  const auto from = static_cast<DType>(args.from_dtype);
  const bool narrows = from == DType::f32;
  switch (narrows ? static_cast<DType>(args.to_dtype) : from) {
    case DType::f16: return either_way<F16>(args, narrows);
    case DType::bf16: return either_way<Bf16>(args, narrows);
    case DType::f8e4m3: return either_way<F8e4m3>(args, narrows);
    case DType::f8e5m2: return either_way<F8e5m2>(args, narrows);
    case DType::f32: return run<NativeElement<float>, NativeElement<float>>(args);
    case DType::f64: return run<NativeElement<double>, NativeElement<double>>(args);
    case DType::boolean: return run<Bool, Bool>(args);
    case DType::u8:
      return push(reinterpret_cast<const char*>(args.from), args.count,
          blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x, 1,
          [&](int) { return reinterpret_cast<char*>(args.to); });
    default: return;
  }
}
