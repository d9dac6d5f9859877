// Data types as vectors: how elements are loaded into accumulators and rounded back.
// Included once per instruction set.
#if defined(SYMM_FORMATS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SYMM_FORMATS_INL
#undef SYMM_FORMATS_INL
#else
#define SYMM_FORMATS_INL
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace symm::host::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Unaligned access. With one lane Highway's own would dereference a misaligned pointer.
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const std::byte* from) {
  using T = hn::TFromD<D>;
#if HWY_TARGET == HWY_SCALAR
  T lane;
  std::memcpy(&lane, from, sizeof lane);
  return hn::Set(d, lane);
#else
  return hn::LoadU(d, reinterpret_cast<const T*>(from));
#endif
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, std::byte* to) {
  using T = hn::TFromD<D>;
#if HWY_TARGET == HWY_SCALAR
  (void)d;
  const T lane = hn::GetLane(v);
  std::memcpy(to, &lane, sizeof lane);
#else
  hn::StoreU(v, d, reinterpret_cast<T*>(to));
#endif
}

// Loads the first `count` elements of a vector, and zeros for the others, without
// reading other memory and without a copy in memory. Narrower elements have no such
// instruction before AVX-512.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
template <class Format>
inline constexpr bool kLoadsParts =
    sizeof(typename Format::Wide) == Format::kBytes && Format::kBytes >= 4;
template <class D>
HWY_INLINE hn::Vec<D> load_part(D d, const std::byte* from, size_t count) {
  return hn::MaskedLoad(hn::FirstN(d, count), d, reinterpret_cast<const hn::TFromD<D>*>(from));
}
#else
template <class Format>
inline constexpr bool kLoadsParts = false;
template <class D>
hn::Vec<D> load_part(D d, const std::byte* from, size_t count);
#endif

// An element that is stored in the type in which it is combined.
template <class T>
struct NativeElement {
  using Wide = T;
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr size_t kBytes = sizeof(T);
  static HWY_INLINE V read(const std::byte* from) { return load(D(), from); }
  static HWY_INLINE void write(V v, std::byte* to) { store(D(), v, to); }
};

// A byte, whose values other than 0 are true. Of the values 0 and 1 the larger is
// "or", the smaller "and".
struct Bool : NativeElement<uint8_t> {
  static HWY_INLINE V read(const std::byte* from) {
    return hn::Min(load(D(), from), hn::Set(D(), 1));
  }
};

using DF = hn::ScalableTag<float>;
using DU = hn::ScalableTag<uint32_t>;
using VF = hn::Vec<DF>;
using VU = hn::Vec<DU>;

// A small float, which is combined in f32. Code converts between f32 and the bits of the small
// type, one of them per 32-bit lane.
template <class Bits, class Code>
struct Small {
  using Wide = float;
  using D = DF;
  using V = VF;
  static constexpr size_t kBytes = sizeof(Bits);
  using Lanes = hn::Rebind<Bits, DU>;
  static HWY_INLINE V read(const std::byte* from) {
    return Code::decode(hn::PromoteTo(DU(), load(Lanes(), from)));
  }
  static HWY_INLINE void write(V v, std::byte* to) {
    store(Lanes(), hn::TruncateTo(Lanes(), Code::encode(v)), to);
  }
};

struct CodeBf16 {
  static HWY_INLINE VF decode(VU bits) { return hn::BitCast(DF(), hn::ShiftLeft<16>(bits)); }
  static HWY_INLINE VU encode(VF v) {
    const DU d;
    const VU bits = hn::BitCast(d, v);
    const VU odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
    const VU rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7FFF)));
    const VU quiet = hn::Or(bits, hn::Set(d, 0x400000));
    return hn::ShiftRight<16>(hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(v)), quiet, rounded));
  }
};

// An IEEE-like type of 1 + kWidth - 1 - kMantissa + kMantissa bits. kTop is what finite numbers
// become that are too large: infinity or, where they saturate, the largest finite value. kSpecial
// is the code of infinity, or of NaN where there is no infinity.
template <int kWidth, int kMantissa, int kBias, uint32_t kTop, uint32_t kSpecial, uint32_t kNan>
struct CodeIeee {
  static constexpr int kShift = 23 - kMantissa;
  static constexpr uint32_t kSign = 1U << (kWidth - 1);

  static HWY_INLINE VF decode(VU code) {
    const DU d;
    const VU magnitude = hn::And(code, hn::Set(d, kSign - 1));
    const VU sign = hn::ShiftLeft<32 - kWidth>(hn::And(code, hn::Set(d, kSign)));

    // The exponent is placed where f32 has it, and the number scaled by 2^(127 - bias), which
    // is exact and right for subnormal numbers too.
    const VF scale = hn::BitCast(DF(), hn::Set(d, static_cast<uint32_t>(127 + 127 - kBias) << 23));
    const VU placed = hn::ShiftLeft<kShift>(magnitude);
    const VU number = hn::BitCast(d, hn::Mul(hn::BitCast(DF(), placed), scale));
    const auto is_special = hn::Gt(hn::BitCast(hn::ScalableTag<int32_t>(), magnitude),
        hn::Set(hn::ScalableTag<int32_t>(), static_cast<int32_t>(kSpecial) - 1));
    const VU special = hn::Or(placed, hn::Set(d, 0x7F800000U));

    return hn::BitCast(
        DF(), hn::Or(sign, hn::IfThenElse(hn::RebindMask(d, is_special), special, number)));
  }

  static HWY_INLINE VU encode(VF v) {
    const DU d;
    const hn::ScalableTag<int32_t> di;
    const VU bits = hn::BitCast(d, v);
    const VU magnitude = hn::And(bits, hn::Set(d, 0x7FFFFFFFU));
    const VU sign = hn::And(hn::ShiftRight<32 - kWidth>(bits), hn::Set(d, kSign));
    const VU odd = hn::And(hn::ShiftRight<kShift>(magnitude), hn::Set(d, 1));
    const VU rounded = hn::Add(magnitude, hn::Add(odd, hn::Set(d, (1U << (kShift - 1)) - 1)));
    const VU normal = hn::Sub(hn::ShiftRight<kShift>(rounded),
        hn::Set(d, static_cast<uint32_t>(127 - kBias) << kMantissa));

    // The result is below the smallest normal number: adding a number whose last bit has the
    // weight of the result's last bit makes the adder round.
    const VU magic = hn::Set(d, static_cast<uint32_t>(127 + 24 - kBias - kMantissa) << 23);
    const VU tiny = hn::Sub(
        hn::BitCast(d, hn::Add(hn::BitCast(DF(), magnitude), hn::BitCast(DF(), magic))), magic);
    const auto is_tiny = hn::Lt(hn::BitCast(di, magnitude), hn::Set(di, (128 - kBias) << 23));
    VU code = hn::IfThenElse(hn::RebindMask(d, is_tiny), tiny, normal);
    code = hn::Min(code, hn::Set(d, kTop));
    if constexpr (kTop != kSpecial) {
      const auto is_beyond = hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x7F7FFFFF));
      code = hn::IfThenElse(hn::RebindMask(d, is_beyond), hn::Set(d, kSpecial), code);
    }
    if constexpr (kNan != kSpecial) {
      code = hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(v)), hn::Set(d, kNan), code);
    }

    return hn::Or(sign, code);
  }
};

using F8e4m3 = Small<uint8_t, CodeIeee<8, 3, 7, 0x7E, 0x7F, 0x7F>>;
using F8e5m2 = Small<uint8_t, CodeIeee<8, 2, 15, 0x7B, 0x7C, 0x7E>>;
using Bf16 = Small<uint16_t, CodeBf16>;

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
// f16, which the processor converts. Its NaN keeps a payload, which is unspecified anyway.
struct F16 {
  using Wide = float;
  using D = DF;
  using V = VF;
  static constexpr size_t kBytes = 2;
  using Bits = hn::Rebind<uint16_t, DF>;
  using Halfs = hn::Rebind<hwy::float16_t, DF>;
  static HWY_INLINE V read(const std::byte* from) {
    return hn::PromoteTo(DF(), hn::BitCast(Halfs(), load(Bits(), from)));
  }
  static HWY_INLINE void write(V v, std::byte* to) {
    store(Bits(), hn::BitCast(Bits(), hn::DemoteTo(Halfs(), v)), to);
  }
};
#else
using F16 = Small<uint16_t, CodeIeee<16, 10, 15, 0x7C00, 0x7C00, 0x7E00>>;
#endif

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace symm::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
