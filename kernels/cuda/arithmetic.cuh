// The arithmetic of the collectives on packs, with the bits of the host kernels: operands are
// combined in rank order or in tree order, small floats in f32 and rounded once to nearest even.
// The frequent cases (sums of f32, f16 and bf16) are inlined and unrolled; everything else goes
// through one function for each order that is compiled once a file.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/memory.cuh"
#include "kernels/tree_order.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
// ---- element types: how an element becomes an accumulator, and an accumulator an element

template <class T>
struct NativeElement {
  using Element = T;
  using Wide = T;
  static __device__ __forceinline__ T read(T v) { return v; }
  static __device__ __forceinline__ T write(T v) { return v; }
};

struct Bf16 {
  using Element = uint16_t;
  using Wide = float;
  static __device__ __forceinline__ float read(uint16_t v) {
    return __uint_as_float(static_cast<uint32_t>(v) << 16);
  }
  static __device__ __forceinline__ uint16_t write(float v) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(v));
  }
};

struct F16 {
  using Element = uint16_t;
  using Wide = float;
  static __device__ __forceinline__ float read(uint16_t v) {
    return __half2float(__ushort_as_half(v));
  }
  static __device__ __forceinline__ uint16_t write(float v) {
    return __half_as_ushort(__float2half_rn(v));
  }
};

// Floats of 8 bits. Finite numbers saturate at kTop; infinity is kSpecial, which is NaN where a
// type has no infinity. They are converted in integers, so that every architecture gives the same
// bits.
template <int kMantissa, int kBias, uint32_t kTop, uint32_t kSpecial, uint32_t kNan>
struct F8 {
  using Element = uint8_t;
  using Wide = float;
  static constexpr int kShift = 23 - kMantissa;
  static constexpr bool kHasInfinity = kNan != kSpecial;
  // The least magnitude that becomes NaN.
  static constexpr uint32_t kFirstNan = kHasInfinity ? 0x7F800001U : 0x7F800000U;

  static __device__ __forceinline__ float read(uint8_t code) {
    const uint32_t magnitude = code & 0x7FU;
    const uint32_t sign = static_cast<uint32_t>(code & 0x80U) << 24;
    const uint32_t placed = magnitude << kShift;
    // Scaling by 2^(127 - bias) is exact, and right for subnormal numbers too.
    const uint32_t number = __float_as_uint(
        __uint_as_float(placed) * __uint_as_float(static_cast<uint32_t>(254 - kBias) << 23));
    return __uint_as_float(sign | (magnitude >= kSpecial ? placed | 0x7F800000U : number));
  }

  static __device__ __forceinline__ uint8_t write(float v) {
    const uint32_t bits = __float_as_uint(v);
    const uint32_t magnitude = bits & 0x7FFFFFFFU;

    uint32_t code;
    if (magnitude >= kFirstNan) {
      code = kNan;
    } else {
      if (magnitude < static_cast<uint32_t>(128 - kBias) << 23) {
        // Below the smallest normal number, the adder rounds: a number is added whose last bit
        // weighs as much as the last bit of the result.
        const uint32_t magic = static_cast<uint32_t>(127 + 24 - kBias - kMantissa) << 23;
        code = __float_as_uint(__uint_as_float(magnitude) + __uint_as_float(magic)) - magic;
      } else {
        const uint32_t odd = magnitude >> kShift & 1U;
        code = ((magnitude + odd + ((1U << (kShift - 1)) - 1)) >> kShift) -
               (static_cast<uint32_t>(127 - kBias) << kMantissa);
      }
      // Infinity has the code behind the largest number. It is the magnitude whose sum reaches
      // bit 31.
      static_assert(kSpecial == kTop + 1);
      const uint32_t top = kHasInfinity ? kTop + ((magnitude + 0x00800000U) >> 31) : kTop;
      code = code < top ? code : top;
    }

    return static_cast<uint8_t>(code | (bits >> 24 & 0x80U));
  }
};
using F8e4m3 = F8<3, 7, 0x7E, 0x7F, 0x7F>;
using F8e5m2 = F8<2, 15, 0x7B, 0x7C, 0x7E>;

// A byte is false if it is 0, else true.
struct Bool {
  using Element = uint8_t;
  using Wide = uint8_t;
  static __device__ __forceinline__ uint8_t read(uint8_t v) { return v != 0 ? 1 : 0; }
  static __device__ __forceinline__ uint8_t write(uint8_t v) { return v; }
};

// ---- operations

// Integers are computed with 64 bits and without sign, where overflow is defined: it wraps.
struct Sum {
  template <class W>
  static __device__ __forceinline__ W combine(W a, W x) {
    return static_cast<W>(static_cast<uint64_t>(a) + static_cast<uint64_t>(x));
  }
  static __device__ __forceinline__ float combine(float a, float x) { return __fadd_rn(a, x); }
  static __device__ __forceinline__ double combine(double a, double x) { return __dadd_rn(a, x); }
};

struct Product {
  template <class W>
  static __device__ __forceinline__ W combine(W a, W x) {
    return static_cast<W>(static_cast<uint64_t>(a) * static_cast<uint64_t>(x));
  }
  static __device__ __forceinline__ float combine(float a, float x) { return __fmul_rn(a, x); }
  static __device__ __forceinline__ double combine(double a, double x) { return __dmul_rn(a, x); }
};

// For f8: finite numbers whose product f32 cannot hold stay finite on the way, too, so that the
// result saturates and a factor of 0 still gives 0.
struct SaturatingProduct {
  static __device__ __forceinline__ float combine(float a, float x) {
    constexpr uint32_t kInfinity = 0x7F800000U;
    const float product = __fmul_rn(a, x);
    const uint32_t first = __float_as_uint(fabsf(a));
    const uint32_t second = __float_as_uint(fabsf(x));
    const bool are_finite = (first > second ? first : second) < kInfinity;
    // One less than infinity is the largest finite number.
    const uint32_t back = are_finite && fabsf(product) == __uint_as_float(kInfinity) ? 1 : 0;
    return __uint_as_float(__float_as_uint(product) - back);
  }
};
template <class Type>
struct ProductOf {
  using Is = Product;
  static constexpr bool kSaturates = false;
};
template <int kMantissa, int kBias, uint32_t kTop, uint32_t kSpecial, uint32_t kNan>
struct ProductOf<F8<kMantissa, kBias, kTop, kSpecial, kNan>> {
  using Is = SaturatingProduct;
  static constexpr bool kSaturates = true;
};

// `x` replaces the accumulator only if it is strictly better, or NaN: the first of equals stays,
// and so does NaN.
template <bool kLess>
struct Best {
  template <class W>
  static __device__ __forceinline__ W combine(W a, W x) {
    return (kLess ? x < a : a < x) || x != x ? x : a;
  }
};

// ---- elements of two parts

template <class First, class Second>
struct Parts {
  First first;
  Second second;
};

template <class First, class Second>
using TwoParts = NativeElement<Parts<First, Second>>;

// Each product and each sum of two of them is rounded.
struct ComplexProduct {
  template <class Part>
  static __device__ __forceinline__ Parts<Part, Part> combine(
      Parts<Part, Part> a, Parts<Part, Part> x) {
    return {Sum::combine(Product::combine(a.first, x.first), -Product::combine(a.second, x.second)),
        Sum::combine(Product::combine(a.first, x.second), Product::combine(a.second, x.first))};
  }
};
template <class Part>
struct ProductOf<TwoParts<Part, Part>> {
  using Is = ComplexProduct;
  static constexpr bool kSaturates = false;
};

// `x` replaces the accumulator if its value is strictly better, or NaN where the other is none; or
// if neither is better and its index is lower.
template <bool kLess>
struct BestPair {
  template <class Value, class Index>
  static __device__ __forceinline__ Parts<Value, Index> combine(
      Parts<Value, Index> a, Parts<Value, Index> x) {
    const bool a_is_nan = a.first != a.first;
    const bool x_is_nan = x.first != x.first;
    const bool is_better = kLess ? x.first < a.first : a.first < x.first;
    const bool is_worse = kLess ? a.first < x.first : x.first < a.first;
    const bool a_wins = a_is_nan ? !x_is_nan : is_worse;
    const bool x_wins = x_is_nan ? !a_is_nan : is_better;
    return x_wins || (!a_wins && x.second < a.second) ? x : a;
  }
};

// An average.
template <class W>
__device__ __forceinline__ W over(W sum, int ranks) {
  return static_cast<W>(sum / static_cast<W>(ranks));
}

template <class Type>
struct Elements {
  static constexpr int kCount = static_cast<int>(kPack / sizeof(typename Type::Element));
  union {
    uint4 pack;
    typename Type::Element at[kCount];
  };
};

// The ranks of the left part of a tree of kRanks.
template <int kRanks>
inline constexpr int kLeftOf = subtree_at(0, kRanks - 1);

// The tree of element `i` of the operands of kRanks ranks.
template <class Type, class Operation, int kRanks>
__device__ __forceinline__ typename Type::Wide tree_of(const uint4* operands, int i) {
  if constexpr (kRanks == 1) {
    Elements<Type> in;
    in.pack = operands[0];
    return Type::read(in.at[i]);
  } else {
    constexpr int kLeft = kLeftOf<kRanks>;
    return Operation::combine(tree_of<Type, Operation, kLeft>(operands, i),
        tree_of<Type, Operation, kRanks - kLeft>(operands + kLeft, i));
  }
}

// Combines the operands of kRanks ranks, unrolled, so that they stay in registers; or, if that is
// 0, of `ranks` ranks in memory, in a loop and in rank order.
template <class Type, class Operation, int kRanks>
__device__ __forceinline__ uint4 combine(
    const uint4* operands, int ranks, bool average, bool in_tree = false) {
  using W = typename Type::Wide;
  constexpr int kCount = Elements<Type>::kCount;
  constexpr bool kMayBeInTree = kRanks > kRanksInOrder;
  W sum[kCount];

  if (kMayBeInTree && in_tree) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      sum[i] = tree_of<Type, Operation, kMayBeInTree ? kRanks : 1>(operands, i);
    }
  } else {
    Elements<Type> in;
    in.pack = operands[0];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      sum[i] = Type::read(in.at[i]);
    }

#pragma unroll(kRanks == 0 ? 1 : kRanks)
    for (int r = 1; r < (kRanks == 0 ? ranks : kRanks); ++r) {
      in.pack = operands[r];
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        sum[i] = Operation::combine(sum[i], Type::read(in.at[i]));
      }
    }
  }

  if (average) {
#pragma unroll(kRanks == 0 ? 1 : kCount)
    for (int i = 0; i < kCount; ++i) {
      sum[i] = over(sum[i], ranks);
    }
  }

  Elements<Type> out;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    out.at[i] = Type::write(sum[i]);
  }
  return out.pack;
}

// Combines operands 0 .. ranks-1, which load(rank) loads; some loads are under way at a time.
template <class Type, class Operation, class Load>
__device__ __forceinline__ uint4 combine_loaded(const Load& load, int ranks, bool average) {
  using W = typename Type::Wide;
  constexpr int kCount = Elements<Type>::kCount;
  constexpr int kAtOnce = 4;
  W sum[kCount];

#pragma unroll 1
  for (int first = 0; first < ranks; first += kAtOnce) {
    Elements<Type> in[kAtOnce];
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      if (first + r < ranks) in[r].pack = load(first + r);
    }
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      if (first + r >= ranks) continue;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const W value = Type::read(in[r].at[i]);
        sum[i] = first + r == 0 ? value : Operation::combine(sum[i], value);
      }
    }
  }

  Elements<Type> out;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    out.at[i] = Type::write(average ? over(sum[i], ranks) : sum[i]);
  }
  return out.pack;
}

// The product of f8, one element at a time: it is rare, and other operations need the registers.
template <class Type>
__device__ uint4 product_of_f8(const uint4* operands, int ranks) {
  const auto word = [&](int w) {
    const auto element = [&](int rank, int shift) {
      const uint32_t bits = reinterpret_cast<const uint32_t*>(operands + rank)[w];
      return Type::read(static_cast<uint8_t>(bits >> shift));
    };

    uint32_t all = 0;
#pragma unroll 1
    for (int shift = 0; shift < 32; shift += 8) {
      float product = element(0, shift);
#pragma unroll 1
      for (int r = 1; r < ranks; ++r) {
        product = SaturatingProduct::combine(product, element(r, shift));
      }
      all |= static_cast<uint32_t>(Type::write(product)) << shift;
    }
    return all;
  };
  return {word(0), word(1), word(2), word(3)};
}

template <class Type>
__device__ uint4 combine_any_op(const uint4* operands, int ranks, Op op) {
  switch (op) {
    case Op::sum: return combine<Type, Sum, 0>(operands, ranks, false);
    case Op::avg: return combine<Type, Sum, 0>(operands, ranks, true);
    case Op::min: return combine<Type, Best<true>, 0>(operands, ranks, false);
    case Op::max: return combine<Type, Best<false>, 0>(operands, ranks, false);
    case Op::prod:
      if constexpr (ProductOf<Type>::kSaturates) {
        return product_of_f8<Type>(operands, ranks);
      } else {
        return combine<Type, Product, 0>(operands, ranks, false);
      }
    case Op::band:
    case Op::bor:
    case Op::bxor: break;  // combine_bits()
    case Op::minloc:
    case Op::maxloc: break;  // combine_pairs()
  }

  return operands[0];
}

// Elements of two parts are combined one at a time: they are rare.
template <class Type, class Operation>
__device__ uint4 combine_one_by_one(const uint4* operands, int ranks) {
  using Element = typename Type::Element;
  Elements<Type> out;
#pragma unroll 1
  for (int i = 0; i < Elements<Type>::kCount; ++i) {
    Element all = reinterpret_cast<const Element*>(operands)[i];
#pragma unroll 1
    for (int r = 1; r < ranks; ++r) {
      all = Operation::combine(all, reinterpret_cast<const Element*>(operands + r)[i]);
    }
    out.at[i] = all;
  }
  return out.pack;
}

template <class Value, class Index>
__device__ __forceinline__ uint4 combine_pairs(const uint4* operands, int ranks, Op op) {
  using Type = TwoParts<Value, Index>;
  return op == Op::minloc ? combine_one_by_one<Type, BestPair<true>>(operands, ranks)
                          : combine_one_by_one<Type, BestPair<false>>(operands, ranks);
}

// Bitwise operators see words of a pack, whatever type the elements have.
static __device__ __forceinline__ uint4 combine_bits(const uint4* operands, int ranks, Op op) {
  uint4 all = operands[0];
#pragma unroll 1
  for (int r = 1; r < ranks; ++r) {
    const uint4 x = operands[r];
    if (op == Op::band) {
      all = {all.x & x.x, all.y & x.y, all.z & x.z, all.w & x.w};
    } else if (op == Op::bor) {
      all = {all.x | x.x, all.y | x.y, all.z | x.z, all.w | x.w};
    } else {
      all = {all.x ^ x.x, all.y ^ x.y, all.z ^ x.z, all.w ^ x.w};
    }
  }
  return all;
}

// The tree of sums of operands in memory, as a tree of trees of up to kFew, of which the last may
// be smaller. It takes kBytes of an operand at a time.
template <class Type, int kBytes>
struct SumInTree {
  using Element = typename Type::Element;
  using W = typename Type::Wide;
  static constexpr int kCount = kBytes / static_cast<int>(sizeof(Element));
  static constexpr int kFew = 8;
  static constexpr int kMost = (kRoom + kFew - 1) / kFew;

  struct Part {
    W at[kCount];
  };

  // Part number `number` of an operand.
  static __device__ __forceinline__ Part read(const uint4& operand, int number) {
    struct alignas(kBytes) Packed {
      Element at[kCount];
    };
    const auto in = reinterpret_cast<const Packed*>(&operand)[number];
    Part part;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      part.at[i] = Type::read(in.at[i]);
    }
    return part;
  }

  static __device__ __forceinline__ Part add(Part left, const Part& right) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      left.at[i] = Sum::combine(left.at[i], right.at[i]);
    }
    return left;
  }

  // The tree of up to four operands.
  static __device__ __forceinline__ Part small(const uint4* operands, int ranks, int number) {
    Part all = read(operands[0], number);
    if (ranks > 1) all = add(all, read(operands[1], number));
    if (ranks > 2) {
      Part right = read(operands[2], number);
      if (ranks > 3) right = add(right, read(operands[3], number));
      all = add(all, right);
    }
    return all;
  }

  // The tree of up to kFew operands.
  static __device__ __forceinline__ Part few(const uint4* operands, int ranks, int number) {
    constexpr int kHalf = kFew / 2;
    const Part left = small(operands, ranks, number);
    return ranks > kHalf ? add(left, small(operands + kHalf, ranks - kHalf, number)) : left;
  }

  static __device__ __forceinline__ Part tree(const uint4* operands, int ranks, int number) {
    Part waiting[kMost];
    int depth = 0;
#pragma unroll 1
    for (int first = 0;; first += kFew) {
      const bool is_last = first + kFew >= ranks;
      Part all = few(operands + first, is_last ? ranks - first : kFew, number);

      // As often as merges_after() says, or with all that wait.
#pragma unroll 1
      for (int bits = first / kFew; depth > 0 && (is_last || (bits & 1) != 0); bits /= 2) {
        all = add(waiting[--depth], all);
      }
      if (is_last) return all;
      waiting[depth++] = all;
    }
  }

  static __device__ __forceinline__ void write(
      uint4& out, int number, const Part& all, int ranks, bool average) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      reinterpret_cast<Element*>(&out)[number * kCount + i] =
          Type::write(average ? over(all.at[i], ranks) : all.at[i]);
    }
  }

  // In a tree of few operands nothing waits in memory.
  template <bool kOfFew>
  static __device__ __forceinline__ uint4 run(const uint4* operands, int ranks, bool average) {
    uint4 out;
#pragma unroll(kOfFew ? static_cast<int>(kPack) / kBytes : 1)
    for (int number = 0; number < static_cast<int>(kPack) / kBytes; ++number) {
      const Part all = kOfFew ? few(operands, ranks, number) : tree(operands, ranks, number);
      write(out, number, all, ranks, average);
    }
    return out;
  }
};

// Half a pack of each of few operands at a time; a larger tree leaves registers for less.
template <class Type>
__device__ __forceinline__ uint4 sum_tree(const uint4* operands, int ranks, bool average) {
  constexpr int kElement = sizeof(typename Type::Element);
  constexpr int kWord = kElement < 4 ? 4 : kElement;
  using OfFew = SumInTree<Type, kPack / 2>;
  using OfMany = SumInTree<Type, kWord>;
  if (ranks <= OfFew::kFew) return OfFew::template run<true>(operands, ranks, average);
  return OfMany::template run<false>(operands, ranks, average);
}

// For kernels whose rank order is inlined, which keeps its registers so.
template <class Type>
__device__ __noinline__ uint4 sum_in_tree(const uint4* operands, int ranks, bool average) {
  return sum_tree<Type>(operands, ranks, average);
}

// The tree of products, one element at a time: it is rare.
template <class Type>
__device__ __forceinline__ uint4 product_in_tree(const uint4* operands, int ranks) {
  using Element = typename Type::Element;
  uint4 out;
#pragma unroll 1
  for (int i = 0; i < Elements<Type>::kCount; ++i) {
    typename Type::Wide waiting[kMostWaiting];
    int depth = 0;
#pragma unroll 1
    for (int r = 0;; ++r) {
      auto all = Type::read(reinterpret_cast<const Element*>(operands + r)[i]);
      const bool is_last = r + 1 >= ranks;
#pragma unroll 1
      for (int bits = r; depth > 0 && (is_last || (bits & 1) != 0); bits /= 2) {
        all = ProductOf<Type>::Is::combine(waiting[--depth], all);
      }
      if (is_last) {
        reinterpret_cast<Element*>(&out)[i] = Type::write(all);
        break;
      }
      waiting[depth++] = all;
    }
  }
  return out;
}

template <class Type>
__device__ __forceinline__ uint4 combine_floats_in_tree(const uint4* operands, int ranks, Op op) {
  if (op == Op::prod) return product_in_tree<Type>(operands, ranks);
  return sum_tree<Type>(operands, ranks, op == Op::avg);
}

// A function of its own, so that rank order keeps its registers.
static __device__ __noinline__ uint4 combine_any_in_tree(
    const uint4* operands, int ranks, DType dtype, Op op) {
  switch (dtype) {
    case DType::f16: return combine_floats_in_tree<F16>(operands, ranks, op);
    case DType::f32: return combine_floats_in_tree<NativeElement<float>>(operands, ranks, op);
    case DType::f64: return combine_floats_in_tree<NativeElement<double>>(operands, ranks, op);
    case DType::bf16: return combine_floats_in_tree<Bf16>(operands, ranks, op);
    case DType::f8e4m3: return combine_floats_in_tree<F8e4m3>(operands, ranks, op);
    case DType::f8e5m2: return combine_floats_in_tree<F8e5m2>(operands, ranks, op);
    case DType::c64: return product_in_tree<TwoParts<float, float>>(operands, ranks);
    case DType::c128: return product_in_tree<TwoParts<double, double>>(operands, ranks);
    default: return operands[0];  // CallSignature::set_order() leaves integers in rank order
  }
}

static __device__ __noinline__ uint4 combine_any(
    const uint4* operands, int ranks, DType dtype, Op op, bool in_tree) {
  if (in_tree) return combine_any_in_tree(operands, ranks, dtype, op);
  if (is_bitwise(op)) return combine_bits(operands, ranks, op);
  switch (dtype) {
    case DType::i8: return combine_any_op<NativeElement<int8_t>>(operands, ranks, op);
    case DType::i16: return combine_any_op<NativeElement<int16_t>>(operands, ranks, op);
    case DType::i32: return combine_any_op<NativeElement<int32_t>>(operands, ranks, op);
    case DType::i64: return combine_any_op<NativeElement<int64_t>>(operands, ranks, op);
    case DType::u8: return combine_any_op<NativeElement<uint8_t>>(operands, ranks, op);
    case DType::u16: return combine_any_op<NativeElement<uint16_t>>(operands, ranks, op);
    case DType::u32: return combine_any_op<NativeElement<uint32_t>>(operands, ranks, op);
    case DType::u64: return combine_any_op<NativeElement<uint64_t>>(operands, ranks, op);
    case DType::boolean:  // of 0 and 1 the larger is "or", the smaller "and"
      return op == Op::min || op == Op::prod
                 ? combine<Bool, Best<true>, 0>(operands, ranks, false)
                 : combine<Bool, Best<false>, 0>(operands, ranks, false);
    case DType::f16: return combine_any_op<F16>(operands, ranks, op);
    case DType::f32: return combine_any_op<NativeElement<float>>(operands, ranks, op);
    case DType::f64: return combine_any_op<NativeElement<double>>(operands, ranks, op);
    case DType::bf16: return combine_any_op<Bf16>(operands, ranks, op);
    case DType::f8e4m3: return combine_any_op<F8e4m3>(operands, ranks, op);
    case DType::f8e5m2: return combine_any_op<F8e5m2>(operands, ranks, op);
    // All but products of complex numbers are of real ones here: combined_as().
    case DType::c64:
      return combine_one_by_one<TwoParts<float, float>, ComplexProduct>(operands, ranks);
    case DType::c128:
      return combine_one_by_one<TwoParts<double, double>, ComplexProduct>(operands, ranks);
    case DType::i32_i32: return combine_pairs<int32_t, int32_t>(operands, ranks, op);
    case DType::i64_i64: return combine_pairs<int64_t, int64_t>(operands, ranks, op);
    case DType::f32_i32: return combine_pairs<float, int32_t>(operands, ranks, op);
    case DType::f64_i64: return combine_pairs<double, int64_t>(operands, ranks, op);
  }

  return operands[0];
}

// Combines the operands of at most kRanks ranks.
template <int kRanks>
__device__ __forceinline__ uint4 combine_any(
    const uint4* operands, int ranks, const CollectiveArgs& args) {
  return combine_any(operands, ranks, static_cast<DType>(args.dtype), static_cast<Op>(args.op),
      kRanks > kRanksInOrder && args.in_tree != 0);
}

// All operands 0 .. ranks-1, which load(rank) loads, in memory.
struct InMemory {
  uint4 operand[kRoom];

  template <class Load>
  __device__ __forceinline__ InMemory(const Load& load, int ranks) {
#pragma unroll 1
    for (int r = 0; r < ranks; ++r) {
      operand[r] = load(r);
    }
  }
};

// Kernels are instantiated with one of these: SumOrAverage for an exact number of ranks, Any
// for a largest number of ranks.
template <class Type>
struct SumOrAverage {
  template <int kRanks>
  static __device__ __forceinline__ int ranks(const DeviceComm&) {
    return kRanks;
  }

  template <int kRanks>
  static __device__ __forceinline__ uint4 run(
      const uint4 (&operands)[kRanks], int ranks, const CollectiveArgs& args) {
    return combine<Type, Sum, kRanks>(
        operands, ranks, static_cast<Op>(args.op) == Op::avg, args.in_tree != 0);
  }

  // Registers would hold what waits in a tree only at the cost of rank order. Where kMayBeTree is
  // false the call is in rank order.
  template <bool kMayBeTree = true, class Load>
  static __device__ __forceinline__ uint4 run_loaded(
      const Load& load, int ranks, const CollectiveArgs& args) {
    const bool average = static_cast<Op>(args.op) == Op::avg;
    if (kMayBeTree && args.in_tree != 0) {
      return sum_in_tree<Type>(InMemory(load, ranks).operand, ranks, average);
    }
    return combine_loaded<Type, Sum>(load, ranks, average);
  }
};

struct Any {
  template <int kRanks>
  static __device__ __forceinline__ int ranks(const DeviceComm& comm) {
    return kRanks == 2 ? kRanks : comm.size;
  }

  template <int kRanks>
  static __device__ __forceinline__ uint4 run(
      const uint4 (&operands)[kRanks], int ranks, const CollectiveArgs& args) {
    return combine_any<kRanks>(operands, ranks, args);
  }

  template <bool kMayBeTree = true, class Load>
  static __device__ __forceinline__ uint4 run_loaded(
      const Load& load, int ranks, const CollectiveArgs& args) {
    return combine_any<kRoom>(InMemory(load, ranks).operand, ranks, args);
  }
};
}  // namespace symm::cuda

// Kernels are compiled for each arithmetic and number of ranks that kernel_name() in plan.cpp
// names: KERNEL(name, arithmetic, ranks).
#define SYMM_FOR_MORE_RANKS(KERNEL, name, arithmetic) \
  KERNEL(name, arithmetic, 3)                         \
  KERNEL(name, arithmetic, 4)                         \
  KERNEL(name, arithmetic, 5)                         \
  KERNEL(name, arithmetic, 6)                         \
  KERNEL(name, arithmetic, 7)                         \
  KERNEL(name, arithmetic, 8)
#define SYMM_FOR_RANKS(KERNEL, name, arithmetic) \
  KERNEL(name, arithmetic, 2)                    \
  SYMM_FOR_MORE_RANKS(KERNEL, name, arithmetic)
#define SYMM_FOR_EACH(FOR_RANKS, KERNEL)                     \
  FOR_RANKS(KERNEL, bf16, SumOrAverage<Bf16>)                \
  FOR_RANKS(KERNEL, f16, SumOrAverage<F16>)                  \
  FOR_RANKS(KERNEL, f32, SumOrAverage<NativeElement<float>>) \
  KERNEL(any, Any, 4)                                        \
  KERNEL(any, Any, 8)                                        \
  KERNEL(any, Any, 16)
#define SYMM_FOR_ARITHMETICS(KERNEL) SYMM_FOR_EACH(SYMM_FOR_RANKS, KERNEL) KERNEL(any, Any, 2)
#define SYMM_FOR_ARITHMETICS_OF_MORE(KERNEL) SYMM_FOR_EACH(SYMM_FOR_MORE_RANKS, KERNEL)
// Kernels that are compiled for each arithmetic alone: KERNEL(name, arithmetic).
#define SYMM_FOR_ARITHMETICS_ONLY(KERNEL)         \
  KERNEL(bf16, SumOrAverage<Bf16>)                \
  KERNEL(f16, SumOrAverage<F16>)                  \
  KERNEL(f32, SumOrAverage<NativeElement<float>>) \
  KERNEL(any, Any)
