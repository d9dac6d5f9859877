// The arithmetic of scans on packs: each rank's result is the combination of the operands of the
// ranks up to it, or before it, in their order and rounded once.
#pragma once

#include "kernels/cuda/arithmetic.cuh"

namespace symm::cuda {
// Each function below replaces the operand of each rank by the combination of those up to it. What
// is combined so far stays as wide as it is combined.

template <class Type, class Operation>
__device__ void make_prefixes(uint4* operands, int ranks) {
  constexpr int kCount = Elements<Type>::kCount;
  typename Type::Wide all[kCount];
  Elements<Type> in;
  in.pack = operands[0];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    all[i] = Type::read(in.at[i]);
  }

#pragma unroll 1
  for (int r = 0;; ++r) {
    Elements<Type> out;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      out.at[i] = Type::write(all[i]);
    }
    operands[r] = out.pack;
    if (r + 1 == ranks) return;

    in.pack = operands[r + 1];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      all[i] = Operation::combine(all[i], Type::read(in.at[i]));
    }
  }
}

// The products of f8, one element at a time, as product_of_f8() makes them.
template <class Type>
__device__ void make_prefixes_of_f8(uint4* operands, int ranks) {
#pragma unroll 1
  for (int i = 0; i < static_cast<int>(kPack); ++i) {
    const auto element = [&](int rank) -> uint8_t& {
      return reinterpret_cast<uint8_t*>(operands + rank)[i];
    };
    float all = Type::read(element(0));
    element(0) = Type::write(all);
#pragma unroll 1
    for (int r = 1; r < ranks; ++r) {
      all = SaturatingProduct::combine(all, Type::read(element(r)));
      element(r) = Type::write(all);
    }
  }
}

static __device__ __forceinline__ void make_prefixes_of_bits(uint4* operands, int ranks, Op op) {
#pragma unroll 1
  for (int r = 1; r < ranks; ++r) {
    operands[r] = combine_bits(operands + r - 1, 2, op);
  }
}

// Elements of two parts are combined one at a time, as combine_one_by_one() does.
template <class Type, class Operation>
__device__ void make_prefixes_one_by_one(uint4* operands, int ranks) {
  using Element = typename Type::Element;
#pragma unroll 1
  for (int i = 0; i < Elements<Type>::kCount; ++i) {
    Element all = reinterpret_cast<const Element*>(operands)[i];
#pragma unroll 1
    for (int r = 1; r < ranks; ++r) {
      Element& place = reinterpret_cast<Element*>(operands + r)[i];
      all = Operation::combine(all, place);
      place = all;
    }
  }
}

template <class Value, class Index>
__device__ __forceinline__ void make_prefixes_of_pairs(uint4* operands, int ranks, Op op) {
  using Type = TwoParts<Value, Index>;
  if (op == Op::minloc) return make_prefixes_one_by_one<Type, BestPair<true>>(operands, ranks);
  make_prefixes_one_by_one<Type, BestPair<false>>(operands, ranks);
}

template <class Type>
__device__ void make_prefixes_by(uint4* operands, int ranks, Op op) {
  switch (op) {
    case Op::min: return make_prefixes<Type, Best<true>>(operands, ranks);
    case Op::max: return make_prefixes<Type, Best<false>>(operands, ranks);
    case Op::prod:
      if constexpr (ProductOf<Type>::kSaturates) {
        return make_prefixes_of_f8<Type>(operands, ranks);
      } else {
        return make_prefixes<Type, Product>(operands, ranks);
      }
    default: return make_prefixes<Type, Sum>(operands, ranks);
  }
}

static __device__ __noinline__ void make_prefixes(uint4* operands, int ranks, DType dtype, Op op) {
  if (is_bitwise(op)) return make_prefixes_of_bits(operands, ranks, op);
  switch (dtype) {
    case DType::i8: return make_prefixes_by<NativeElement<int8_t>>(operands, ranks, op);
    case DType::i16: return make_prefixes_by<NativeElement<int16_t>>(operands, ranks, op);
    case DType::i32: return make_prefixes_by<NativeElement<int32_t>>(operands, ranks, op);
    case DType::i64: return make_prefixes_by<NativeElement<int64_t>>(operands, ranks, op);
    case DType::u8: return make_prefixes_by<NativeElement<uint8_t>>(operands, ranks, op);
    case DType::u16: return make_prefixes_by<NativeElement<uint16_t>>(operands, ranks, op);
    case DType::u32: return make_prefixes_by<NativeElement<uint32_t>>(operands, ranks, op);
    case DType::u64: return make_prefixes_by<NativeElement<uint64_t>>(operands, ranks, op);
    case DType::boolean:  // of 0 and 1 the larger is "or", the smaller "and"
      return op == Op::min || op == Op::prod ? make_prefixes<Bool, Best<true>>(operands, ranks)
                                             : make_prefixes<Bool, Best<false>>(operands, ranks);
    case DType::f16: return make_prefixes_by<F16>(operands, ranks, op);
    case DType::f32: return make_prefixes_by<NativeElement<float>>(operands, ranks, op);
    case DType::f64: return make_prefixes_by<NativeElement<double>>(operands, ranks, op);
    case DType::bf16: return make_prefixes_by<Bf16>(operands, ranks, op);
    case DType::f8e4m3: return make_prefixes_by<F8e4m3>(operands, ranks, op);
    case DType::f8e5m2: return make_prefixes_by<F8e5m2>(operands, ranks, op);
    case DType::c64:
      return make_prefixes_one_by_one<TwoParts<float, float>, ComplexProduct>(operands, ranks);
    case DType::c128:
      return make_prefixes_one_by_one<TwoParts<double, double>, ComplexProduct>(operands, ranks);
    case DType::i32_i32: return make_prefixes_of_pairs<int32_t, int32_t>(operands, ranks, op);
    case DType::i64_i64: return make_prefixes_of_pairs<int64_t, int64_t>(operands, ranks, op);
    case DType::f32_i32: return make_prefixes_of_pairs<float, int32_t>(operands, ranks, op);
    case DType::f64_i64: return make_prefixes_of_pairs<double, int64_t>(operands, ranks, op);
  }
}
}  // namespace symm::cuda
