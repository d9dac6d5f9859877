// The steps between the plain calls of which a call with a quantised wire is made
// (kernels/wire_call.hpp, kernels/wire.hpp): operands are encoded, sums of all ranks' codes are
// made and encoded, and codes are decoded. A warp has one group at a time.
//
// Each step reads what the kernel ahead on the stream has written, and only memory of this rank; no
// rank waits here for another.
#include "kernels/cuda/arithmetic.cuh"
#include "kernels/wire.hpp"

using namespace symm;
using namespace symm::cuda;

namespace {
constexpr uint32_t kWarp = 32;
constexpr uint32_t kInfinityBits = 0x7F800000U;
constexpr uint32_t kNanBits = 0x7FC00000U;

// How a number that was scaled becomes a code, and a code a number.
struct WireI8 {
  static constexpr DType kType = DType::i8;
  static __device__ __forceinline__ float read(uint8_t code) {
    return static_cast<float>(static_cast<int8_t>(code));
  }
  // The adder rounds to a multiple of 1, whose low byte is the code.
  static __device__ __forceinline__ uint8_t write(float v) {
    return static_cast<uint8_t>(__float_as_uint(Sum::combine(v, 12582912.0F)));
  }
};
struct WireF8e4m3 : F8e4m3 {
  static constexpr DType kType = DType::f8e4m3;
};
struct WireF8e5m2 : F8e5m2 {
  static constexpr DType kType = DType::f8e5m2;
};

template <int kBytes>
struct WordOf;
template <>
struct WordOf<1> {
  using Type = uint8_t;
};
template <>
struct WordOf<2> {
  using Type = uint16_t;
};
template <>
struct WordOf<4> {
  using Type = uint32_t;
};
template <>
struct WordOf<8> {
  using Type = uint2;
};
template <>
struct WordOf<16> {
  using Type = uint4;
};

// The elements of a group that one thread has: kEach that follow each other.
template <class Type, int kEach>
struct Share {
  using Element = typename Type::Element;
  static constexpr uint32_t kBytes = kEach * sizeof(Element);
  using Word = typename WordOf<static_cast<int>(kBytes)>::Type;
  union {
    uint4 pack;
    Word word;
    Element at[kEach];
  };

  static __device__ __forceinline__ bool is_whole(const char* at, uint32_t count) {
    return count == kEach && (reinterpret_cast<uintptr_t>(at) & (kBytes - 1)) == 0;
  }
  // Elements behind the first `count` become 0.
  __device__ __forceinline__ void load(const char* from, uint32_t count) {
    pack = uint4{0, 0, 0, 0};
    if (is_whole(from, count)) {
      word = *reinterpret_cast<const Word*>(from);
    } else if (count != 0) {
      pack = load_pack(from, count * static_cast<uint32_t>(sizeof(Element)), 0U);
    }
  }
  __device__ __forceinline__ void store(char* to, uint32_t count) const {
    if (is_whole(to, count)) {
      *reinterpret_cast<Word*>(to) = word;
    } else if (count != 0) {
      store_pack(to, count * static_cast<uint32_t>(sizeof(Element)), 0U, pack);
    }
  }
};

template <int kEach>
struct Codes {
  using Word = typename WordOf<kEach>::Type;
  union {
    Word word;
    uint8_t at[kEach];
  };
};

template <int kEach>
struct Numbers {
  float at[kEach];
};

// How many elements of a group of `count` this thread has.
template <int kEach>
__device__ __forceinline__ uint32_t own_count(uint64_t count, uint32_t lane) {
  const uint64_t before = static_cast<uint64_t>(lane) * kEach;
  if (count <= before) return 0;
  return count - before < kEach ? static_cast<uint32_t>(count - before) : kEach;
}

__device__ __forceinline__ uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

// Encodes the group of a warp. Numbers behind the last element do not count: their codes, up to a
// multiple of kEach, are those of 0, and lie in the block, too.
template <class Code, int kEach>
__device__ __forceinline__ void encode_group(
    Numbers<kEach> x, uint64_t count, uint32_t lane, uint64_t codes, uint64_t scale_at) {
  const uint32_t mine = own_count<kEach>(count, lane);
  uint32_t most = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (static_cast<uint32_t>(i) >= mine) x.at[i] = 0;
    const uint32_t magnitude = __float_as_uint(x.at[i]) & 0x7FFFFFFFU;
    most = magnitude > most ? magnitude : most;
  }
#pragma unroll
  for (uint32_t step = kWarp / 2; step > 0; step /= 2) {
    const uint32_t other = __float_as_uint(
        __shfl_xor_sync(0xFFFFFFFFU, __uint_as_float(most), static_cast<int>(step)));
    most = other > most ? other : most;
  }

  const bool is_finite = most < kInfinityBits;
  const float wanted = __uint_as_float(most) / most_of_wire(Code::kType);
  const float scale = wanted > kLeastWireScale ? wanted : kLeastWireScale;
  const float inverse = 1.0F / scale;
  Codes<kEach> out;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const uint8_t code = Code::write(Product::combine(x.at[i], inverse));
    out.at[i] = is_finite ? code : uint8_t{0};
  }

  if (mine != 0) {
    reinterpret_cast<typename Codes<kEach>::Word*>(codes)[lane] = out.word;
  }
  if (lane == 0) {
    *reinterpret_cast<uint32_t*>(scale_at) = is_finite ? __float_as_uint(scale) : kNanBits;
  }
}

// What a thread has of a group. Of codes behind the last element nothing is read: those are 0.
template <class Code, int kEach>
__device__ __forceinline__ Numbers<kEach> decode_group(
    bool has_any, uint32_t lane, uint64_t codes, uint64_t scale_at) {
  Codes<kEach> in;
  in.word = typename Codes<kEach>::Word{};
  if (has_any) in.word = reinterpret_cast<const typename Codes<kEach>::Word*>(codes)[lane];
  const float scale = *reinterpret_cast<const float*>(scale_at);
  Numbers<kEach> x;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    x.at[i] = Product::combine(Code::read(in.at[i]), scale);
  }
  return x;
}

template <int kEach>
__device__ __forceinline__ void add_to_right(Numbers<kEach>& right, const Numbers<kEach>& left) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    right.at[i] = Sum::combine(left.at[i], right.at[i]);
  }
}

// Calls use(group, lane) for the groups that this thread's warp has of `groups`.
template <class Use>
__device__ __forceinline__ void for_each_group(uint64_t groups, const Use& use) {
  const uint32_t lane = threadIdx.x % kWarp;
  const uint64_t warps = static_cast<uint64_t>(gridDim.x) * (blockDim.x / kWarp);
  uint64_t group = static_cast<uint64_t>(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
  for (; group < groups; group += warps) {
    use(group, lane);
  }
}

template <class Code, class Type, int kEach>
__device__ __forceinline__ void encode(const WireEncodeArgs& args) {
  constexpr uint32_t kGroup = kEach * kWarp;
  const uint64_t per_block = wire_groups(args.count, kGroup);
  const uint64_t block_bytes = wire_block_bytes(args.count, kGroup);
  for_each_group(per_block * args.blocks, [&](uint64_t group, uint32_t lane) {
    const uint64_t block = group / per_block;
    const uint64_t place = group - block * per_block;
    const uint64_t first = place * kGroup;
    const uint64_t before = least(args.total, block * args.count);
    const uint64_t here = least(args.count, args.total - before);
    if (first >= here) return;

    const uint64_t count = least(kGroup, here - first);
    const uint64_t from = args.from + block * args.stride + first * sizeof(typename Type::Element);
    Share<Type, kEach> in;
    in.load(reinterpret_cast<const char*>(from) + lane * in.kBytes, own_count<kEach>(count, lane));
    Numbers<kEach> x;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      x.at[i] = Type::read(in.at[i]);
    }
    const uint64_t to = args.to + block * block_bytes;
    encode_group<Code, kEach>(
        x, count, lane, to + first, to + wire_scales_at(args.count) + place * sizeof(float));
  });
}

// The sum in tree order: the counter lies in memory of the thread, and is short.
template <class Code, int kEach>
__device__ __noinline__ Numbers<kEach> sum_in_tree(
    const WireSumArgs& args, bool has_any, uint32_t lane, uint64_t codes, uint64_t scale_at) {
  const uint64_t stride = wire_block_bytes(args.of, args.group);
  Numbers<kEach> waiting[kMostWaiting];
  int depth = 0;
#pragma unroll 1
  for (int source = 0;; ++source) {
    const uint64_t at = static_cast<uint64_t>(source) * stride;
    Numbers<kEach> x = decode_group<Code, kEach>(has_any, lane, codes + at, scale_at + at);
    const bool is_last = source + 1 == args.sources;
    // As often as merges_after() says, or with all that wait.
#pragma unroll 1
    for (int before = source; is_last ? depth > 0 : (before & 1) != 0; before >>= 1) {
      add_to_right(x, waiting[--depth]);
    }
    if (is_last) return x;
    waiting[depth++] = x;
  }
}

template <class Code, int kEach>
__device__ __forceinline__ Numbers<kEach> sum_in_rank_order(
    const WireSumArgs& args, bool has_any, uint32_t lane, uint64_t codes, uint64_t scale_at) {
  const uint64_t stride = wire_block_bytes(args.of, args.group);
  Numbers<kEach> all = decode_group<Code, kEach>(has_any, lane, codes, scale_at);
#pragma unroll 4
  for (int source = 1; source < args.sources; ++source) {
    const uint64_t at = static_cast<uint64_t>(source) * stride;
    Numbers<kEach> x = decode_group<Code, kEach>(has_any, lane, codes + at, scale_at + at);
    add_to_right(x, all);
    all = x;
  }
  return all;
}

template <class Code, int kEach>
__device__ __forceinline__ void sum(const WireSumArgs& args) {
  constexpr uint32_t kGroup = kEach * kWarp;
  const uint64_t scales_at = wire_scales_at(args.of);
  const auto ranks = args.sources;
  for_each_group(wire_groups(args.count, kGroup), [&](uint64_t group, uint32_t lane) {
    const uint64_t first = group * kGroup;
    const uint64_t count = least(kGroup, args.count - first);
    const bool has_any = own_count<kEach>(count, lane) != 0;
    const uint64_t scale = scales_at + group * sizeof(float);
    Numbers<kEach> all = args.in_tree != 0 ? sum_in_tree<Code, kEach>(args, has_any, lane,
                                                 args.from + first, args.from + scale)
                                           : sum_in_rank_order<Code, kEach>(args, has_any, lane,
                                                 args.from + first, args.from + scale);
    if (args.averages != 0) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        all.at[i] = over(all.at[i], ranks);
      }
    }
    encode_group<Code, kEach>(all, count, lane, args.to + first, args.to + scale);
  });
}

template <class Code, class Type, int kEach>
__device__ __forceinline__ void decode(const WireDecodeArgs& args) {
  constexpr uint32_t kGroup = kEach * kWarp;
  const uint64_t per_block = wire_groups(args.count, kGroup);
  const uint64_t block_bytes = wire_block_bytes(args.count, kGroup);
  for_each_group(wire_groups(args.total, kGroup), [&](uint64_t group, uint32_t lane) {
    const uint64_t block = group / per_block;
    const uint64_t place = group - block * per_block;
    const uint64_t first = block * args.count + place * kGroup;
    const uint32_t mine = own_count<kEach>(least(kGroup, args.total - first), lane);
    const uint64_t from = args.from + block * block_bytes;
    const Numbers<kEach> x = decode_group<Code, kEach>(mine != 0, lane, from + place * kGroup,
        from + wire_scales_at(args.count) + place * sizeof(float));

    Share<Type, kEach> out;
    out.pack = uint4{0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      out.at[i] = Type::write(x.at[i]);
    }
    const uint64_t to = args.to + first * sizeof(typename Type::Element);
    out.store(reinterpret_cast<char*>(to) + lane * out.kBytes, mine);
  });
}

template <class Code, class Type>
__device__ __forceinline__ void encode_groups(const WireEncodeArgs& args) {
  if (args.group == kLargeWireGroup) return encode<Code, Type, 4>(args);
  encode<Code, Type, 1>(args);
}

template <class Code>
__device__ __forceinline__ void encode_elements(const WireEncodeArgs& args) {
  switch (static_cast<DType>(args.dtype)) {
    case DType::f16: return encode_groups<Code, F16>(args);
    case DType::bf16: return encode_groups<Code, Bf16>(args);
    default: return encode_groups<Code, NativeElement<float>>(args);
  }
}

template <class Code>
__device__ __forceinline__ void sum_groups(const WireSumArgs& args) {
  if (args.group == kLargeWireGroup) return sum<Code, 4>(args);
  sum<Code, 1>(args);
}

template <class Code, class Type>
__device__ __forceinline__ void decode_groups(const WireDecodeArgs& args) {
  if (args.group == kLargeWireGroup) return decode<Code, Type, 4>(args);
  decode<Code, Type, 1>(args);
}

template <class Code>
__device__ __forceinline__ void decode_elements(const WireDecodeArgs& args) {
  switch (static_cast<DType>(args.dtype)) {
    case DType::f16: return decode_groups<Code, F16>(args);
    case DType::bf16: return decode_groups<Code, Bf16>(args);
    default: return decode_groups<Code, NativeElement<float>>(args);
  }
}
}  // namespace

// A launch with arguments of zeros, to make a kernel ready, has no groups.
extern "C" __global__ void __launch_bounds__(256)
    symm_wire_encode(const __grid_constant__ WireEncodeArgs args) {
  begin();
  switch (static_cast<DType>(args.wire_dtype)) {
    case DType::f8e4m3: return encode_elements<WireF8e4m3>(args);
    case DType::f8e5m2: return encode_elements<WireF8e5m2>(args);
    default: return encode_elements<WireI8>(args);
  }
}

extern "C" __global__ void __launch_bounds__(256)
    symm_wire_sum(const __grid_constant__ WireSumArgs args) {
  begin();
  switch (static_cast<DType>(args.wire_dtype)) {
    case DType::f8e4m3: return sum_groups<WireF8e4m3>(args);
    case DType::f8e5m2: return sum_groups<WireF8e5m2>(args);
    default: return sum_groups<WireI8>(args);
  }
}

extern "C" __global__ void __launch_bounds__(256)
    symm_wire_decode(const __grid_constant__ WireDecodeArgs args) {
  begin();
  switch (static_cast<DType>(args.wire_dtype)) {
    case DType::f8e4m3: return decode_elements<WireF8e4m3>(args);
    case DType::f8e5m2: return decode_elements<WireF8e5m2>(args);
    default: return decode_elements<WireI8>(args);
  }
}
