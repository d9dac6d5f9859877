// Encodes, combines and decodes groups of a quantised wire. Highway compiles this file once for
// each instruction set.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/host/arithmetic/highway.hpp"
#include "kernels/host/arithmetic/simd.hpp"
#include "kernels/host/arithmetic/wire.hpp"
#include "kernels/tree_order.hpp"
#include "kernels/types.hpp"
#include "kernels/wire.hpp"
#include "kernels/wire_call.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/arithmetic/wire_kernels.cpp"
#include <hwy/foreach_target.h>

#include "kernels/host/arithmetic/formats-inl.hpp"

HWY_BEFORE_NAMESPACE();

namespace symm::host::HWY_NAMESPACE {
using DI = hn::ScalableTag<int32_t>;

constexpr uint32_t kInfinityBits = 0x7F800000U;
constexpr uint32_t kNanBits = 0x7FC00000U;

// The codes of a wire: how a number that was scaled becomes a code, and a code a number.
struct WireI8 {
  using Lanes = hn::Rebind<int8_t, DF>;
  static constexpr DType kType = DType::i8;
  static HWY_INLINE VF read(const std::byte* from) {
    return hn::ConvertTo(DF(), hn::PromoteTo(DI(), load(Lanes(), from)));
  }
  static HWY_INLINE void write(VF v, std::byte* to) {
    store(Lanes(), hn::DemoteTo(Lanes(), hn::NearestInt(v)), to);
  }
};
struct WireF8e4m3 : F8e4m3 {
  static constexpr DType kType = DType::f8e4m3;
};
struct WireF8e5m2 : F8e5m2 {
  static constexpr DType kType = DType::f8e5m2;
};

// A group of numbers, with room for the longest vector behind the last.
struct Group {
  HWY_ALIGN float at[kLargeWireGroup + HWY_MAX_BYTES / sizeof(float)];

  HWY_INLINE VF get(size_t i) const { return hn::Load(DF(), at + i); }
  HWY_INLINE void set(size_t i, VF v) { hn::Store(v, DF(), at + i); }
};

// The codes of a group, with as much room.
struct Codes {
  std::byte at[kLargeWireGroup + HWY_MAX_BYTES];
};

template <class Format>
HWY_INLINE void read_group(Group& group, const std::byte* from, size_t count) {
  const size_t lanes = hn::Lanes(DF());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    group.set(i, Format::read(from + i * Format::kBytes));
  }
  if (i == count) return;
  HWY_ALIGN std::byte rest[HWY_MAX_BYTES] = {};
  std::memcpy(rest, from + i * Format::kBytes, (count - i) * Format::kBytes);
  group.set(i, Format::read(rest));
}

template <class Format>
HWY_INLINE void write_group(const Group& group, std::byte* to, size_t count) {
  const size_t lanes = hn::Lanes(DF());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    Format::write(group.get(i), to + i * Format::kBytes);
  }
  if (i == count) return;
  HWY_ALIGN std::byte rest[HWY_MAX_BYTES];
  Format::write(group.get(i), rest);
  std::memcpy(to + i * Format::kBytes, rest, (count - i) * Format::kBytes);
}

// The largest magnitude, as bits: of bits without a sign NaN is the largest, infinity the next.
// Elements behind the last of the group are 0.
HWY_INLINE uint32_t most_of(const Group& group, size_t count) {
  const size_t lanes = hn::Lanes(DF());
  VU most = hn::Zero(DU());
  for (size_t i = 0; i < count; i += lanes) {
    const VU bits = hn::BitCast(DU(), group.get(i));
    most = hn::Max(most, hn::And(bits, hn::Set(DU(), 0x7FFFFFFFU)));
  }
  HWY_ALIGN uint32_t each[HWY_MAX_BYTES / sizeof(uint32_t)];
  hn::Store(most, DU(), each);
  uint32_t all = 0;
  for (size_t i = 0; i < lanes; ++i) {
    all = std::max(all, each[i]);
  }
  return all;
}

// Encodes `count` numbers of a group. Those behind the last, to the end of its vector, are 0.
template <class Code>
HWY_INLINE void encode_group(const Group& group, size_t count, std::byte* to, std::byte* scale_at) {
  const size_t lanes = hn::Lanes(DF());
  const uint32_t most = most_of(group, count);
  if (most >= kInfinityBits) {
    std::memset(to, 0, count);
    std::memcpy(scale_at, &kNanBits, sizeof kNanBits);
    return;
  }

  const float scale =
      std::max(std::bit_cast<float>(most) / most_of_wire(Code::kType), kLeastWireScale);
  std::memcpy(scale_at, &scale, sizeof scale);
  const VF inverse = hn::Set(DF(), 1.0F / scale);

  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    Code::write(hn::Mul(group.get(i), inverse), to + i);
  }
  if (i == count) return;
  Codes rest;
  Code::write(hn::Mul(group.get(i), inverse), rest.at);
  std::memcpy(to + i, rest.at, count - i);
}

// Decodes `count` numbers of a group and the rest of the last vector, which are 0 or NaN.
template <class Code>
HWY_INLINE void decode_group(
    Group& group, size_t count, const std::byte* from, const std::byte* scale_at) {
  const size_t lanes = hn::Lanes(DF());
  float scale = 0;
  std::memcpy(&scale, scale_at, sizeof scale);
  const VF factor = hn::Set(DF(), scale);

  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    group.set(i, hn::Mul(Code::read(from + i), factor));
  }
  if (i == count) return;
  Codes rest{};
  std::memcpy(rest.at, from + i, count - i);
  group.set(i, hn::Mul(Code::read(rest.at), factor));
}

HWY_INLINE void add_to_right(Group& right, const Group& left, size_t count) {
  for (size_t i = 0; i < count; i += hn::Lanes(DF())) {
    right.set(i, hn::Add(left.get(i), right.get(i)));
  }
}

template <class Code, class Format>
void encode(const WireEncoding& e) {
  const size_t group = e.format.group;
  const size_t block_bytes = wire_block_bytes(e.count, e.format.group);
  Group numbers;

  for (size_t block = 0; block < e.blocks; ++block) {
    const size_t before = std::min(e.total, block * e.count);
    const size_t count = std::min(e.count, e.total - before);
    const std::byte* const from = e.from + block * e.stride;
    std::byte* const codes = e.to + block * block_bytes;
    std::byte* scale = codes + wire_scales_at(e.count);
    for (size_t at = 0; at < count; at += group, scale += sizeof(float)) {
      const size_t some = std::min(group, count - at);
      read_group<Format>(numbers, from + at * Format::kBytes, some);
      encode_group<Code>(numbers, some, codes + at, scale);
    }
  }
}

// The sums of one group: a counter of partial sums, which in rank order never has more than one.
template <class Code>
class GroupSum {
 public:
  // Takes the group at `codes` of each source, which are `stride` bytes apart.
  HWY_INLINE const Group& of(const WireSum& s, const std::byte* codes, const std::byte* scales,
      size_t stride, size_t count) {
    int waiting = 0;
    for (int i = 0; i < s.sources; ++i) {
      Group& next = sums_[waiting];
      const size_t at = static_cast<size_t>(i) * stride;
      decode_group<Code>(next, count, codes + at, scales + at);
      int merges = s.in_tree ? merges_after(i) : waiting;
      if (i + 1 == s.sources) merges = waiting;
      for (; merges > 0; --merges) {
        --waiting;
        add_to_right(sums_[waiting + 1], sums_[waiting], count);
        sums_[waiting] = sums_[waiting + 1];
      }
      ++waiting;
    }
    if (s.averages) divide(static_cast<float>(s.sources), count);
    return sums_[0];
  }

 private:
  HWY_INLINE void divide(float by, size_t count) {
    const VF divisor = hn::Set(DF(), by);
    for (size_t i = 0; i < count; i += hn::Lanes(DF())) {
      sums_[0].set(i, hn::Div(sums_[0].get(i), divisor));
    }
  }

  std::array<Group, kMostWaiting + 1> sums_;
};

template <class Code>
void sum(const WireSum& s) {
  const size_t group = s.format.group;
  const size_t stride = wire_block_bytes(s.of, s.format.group);
  const size_t scales_at = wire_scales_at(s.of);
  GroupSum<Code> sums;

  for (size_t at = 0; at < s.count; at += group) {
    const size_t some = std::min(group, s.count - at);
    const size_t scale = scales_at + at / group * sizeof(float);
    const Group& all = sums.of(s, s.from + at, s.from + scale, stride, some);
    encode_group<Code>(all, some, s.to + at, s.to + scale);
  }
}

template <class Code, class Format>
void decode(const WireDecoding& d) {
  const size_t group = d.format.group;
  const size_t block_bytes = wire_block_bytes(d.count, d.format.group);
  Group numbers;

  for (size_t before = 0; before < d.total; before += d.count) {
    const size_t count = std::min(d.count, d.total - before);
    const std::byte* const codes = d.from + before / d.count * block_bytes;
    const std::byte* scale = codes + wire_scales_at(d.count);
    std::byte* const to = d.to + before * Format::kBytes;
    for (size_t at = 0; at < count; at += group, scale += sizeof(float)) {
      const size_t some = std::min(group, count - at);
      decode_group<Code>(numbers, some, codes + at, scale);
      write_group<Format>(numbers, to + at * Format::kBytes, some);
    }
  }
}

// Calls `use` with the type that stands for the elements of `dtype`.
template <class Use>
HWY_INLINE void with_operand(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::f16: return use(F16());
    case DType::bf16: return use(Bf16());
    default: return use(NativeElement<float>());
  }
}

template <class Use>
HWY_INLINE void with_code(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::f8e4m3: return use(WireF8e4m3());
    case DType::f8e5m2: return use(WireF8e5m2());
    default: return use(WireI8());
  }
}

void encode_any(const WireEncoding& e) {
  with_code(e.format.dtype, [&](auto code) {
    with_operand(e.dtype, [&](auto element) { encode<decltype(code), decltype(element)>(e); });
  });
}

void sum_any(const WireSum& s) {
  with_code(s.format.dtype, [&](auto code) { sum<decltype(code)>(s); });
}

void decode_any(const WireDecoding& d) {
  with_code(d.format.dtype, [&](auto code) {
    with_operand(d.dtype, [&](auto element) { decode<decltype(code), decltype(element)>(d); });
  });
}

constexpr WireKernels kWireKernels{encode_any, sum_any, decode_any};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace symm::host::HWY_NAMESPACE

HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace symm::host {
const WireKernels& wire_kernels(Simd simd) noexcept {
  static constexpr std::array<WireKernels, kSimdCount> table = [] {
    std::array<WireKernels, kSimdCount> made{};
#if HWY_TARGETS & HWY_SCALAR
    made[static_cast<size_t>(Simd::scalar)] = N_SCALAR::kWireKernels;
#endif
#if HWY_TARGETS & HWY_SSE4
    made[static_cast<size_t>(Simd::sse4)] = N_SSE4::kWireKernels;
#endif
#if HWY_TARGETS & HWY_AVX2
    made[static_cast<size_t>(Simd::avx2)] = N_AVX2::kWireKernels;
#endif
#if HWY_TARGETS & HWY_AVX3
    made[static_cast<size_t>(Simd::avx512)] = N_AVX3::kWireKernels;
#endif
#if HWY_TARGETS & HWY_NEON
    made[static_cast<size_t>(Simd::neon)] = N_NEON::kWireKernels;
#endif
    return made;
  }();

  return table[static_cast<size_t>(simd)];
}
}  // namespace symm::host
#endif
