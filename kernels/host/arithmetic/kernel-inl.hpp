// The reduction loop, for any format and operation. Included once per instruction set.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/types.hpp"
#if defined(SYMM_KERNEL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SYMM_KERNEL_INL
#undef SYMM_KERNEL_INL
#else
#define SYMM_KERNEL_INL
#endif

#include <limits>
#include <type_traits>

#include "kernels/host/arithmetic/formats-inl.hpp"
#include "kernels/host/arithmetic/table.hpp"

HWY_BEFORE_NAMESPACE();
namespace symm::host::HWY_NAMESPACE {
// Applies a function that no instruction computes: through memory, lane by lane.
template <class D, class Function>
HWY_INLINE hn::Vec<D> lanewise(D d, hn::Vec<D> a, hn::Vec<D> b, Function function) {
  using T = hn::TFromD<D>;
  HWY_ALIGN T x[HWY_MAX_BYTES / sizeof(T)];
  HWY_ALIGN T y[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(a, d, x);
  hn::Store(b, d, y);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    x[i] = function(x[i], y[i]);
  }
  return hn::Load(d, x);
}

// The product of integers is computed in 64 bits without a sign: narrower types would be promoted
// to int, whose overflow is undefined.
template <class T>
struct Times {
  HWY_INLINE T operator()(T a, T b) const {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};
template <class T>
struct Over {
  int64_t divisor;
  HWY_INLINE T operator()(T a, T) const {
    if constexpr (std::is_signed_v<T>) return static_cast<T>(static_cast<int64_t>(a) / divisor);
    return static_cast<T>(static_cast<uint64_t>(a) / static_cast<uint64_t>(divisor));
  }
};

struct Sum {
  template <class D>
  static HWY_INLINE hn::Vec<D> combine(D d, hn::Vec<D> a, hn::Vec<D> x) {
    if constexpr (std::is_integral_v<hn::TFromD<D>>) {
      const hn::RebindToUnsigned<D> du;  // wraps
      return hn::BitCast(d, hn::Add(hn::BitCast(du, a), hn::BitCast(du, x)));
    } else {
      return hn::Add(a, x);
    }
  }
};

struct Product {
  template <class D>
  static HWY_INLINE hn::Vec<D> combine(D d, hn::Vec<D> a, hn::Vec<D> x) {
    using T = hn::TFromD<D>;
    if constexpr (std::is_floating_point_v<T>) {
      return hn::Mul(a, x);
    } else if constexpr (sizeof(T) == 4 || sizeof(T) == 2) {
      const hn::RebindToUnsigned<D> du;
      return hn::BitCast(d, hn::Mul(hn::BitCast(du, a), hn::BitCast(du, x)));
    } else {
      return lanewise(d, a, x, Times<T>());
    }
  }
};

// For numbers that saturate when they are rounded: finite ones whose product f32 cannot hold stay
// finite on the way, too, so that the result saturates and a factor of 0 still gives 0.
struct SaturatingProduct {
  static HWY_INLINE VF combine(DF d, VF a, VF x) {
    const VF product = hn::Mul(a, x);
    const auto overflows = hn::And(hn::IsInf(product), hn::And(hn::IsFinite(a), hn::IsFinite(x)));
    const VF most = hn::CopySign(hn::Set(d, std::numeric_limits<float>::max()), product);
    return hn::IfThenElse(overflows, most, product);
  }
};

// `x` replaces the accumulator only if it is strictly better, or NaN: the first of
// equals stays, and so does NaN.
template <bool kLess>
struct Best {
  template <class D>
  static HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> x) {
    auto better = kLess ? hn::Lt(x, a) : hn::Lt(a, x);
    if constexpr (std::is_floating_point_v<hn::TFromD<D>>) better = hn::Or(better, hn::IsNaN(x));
    return hn::IfThenElse(better, x, a);
  }
};
using Min = Best<true>;
using Max = Best<false>;

template <class Format, class Operation>
class Reducer {
  using D = typename Format::D;
  using V = typename Format::V;
  using Wide = typename Format::Wide;

  const Reduction& r_;
  const int64_t divisor_;

  HWY_INLINE const std::byte* source(int i, size_t at) const {
    return r_.sources[i] + r_.source_offset + at * Format::kBytes;
  }
  HWY_INLINE std::byte* destination(int i, size_t at) const {
    return r_.destinations[i] + r_.destination_offset + at * Format::kBytes;
  }

  HWY_INLINE V finish(V v) const {
    if constexpr (std::is_same_v<Operation, Sum>) {
      if (divisor_ == 0) return v;
      if constexpr (std::is_floating_point_v<Wide>) {
        return hn::Div(v, hn::Set(D(), static_cast<Wide>(divisor_)));
      } else {
        return lanewise(D(), v, v, Over<Wide>{divisor_});
      }
    }
    return v;
  }

  // kSources is the number of sources, or 0 if it is known at run time only. All loads of a block
  // come before its first store, so a destination may be a source.
  template <int kVectors, int kSources>
  HWY_INLINE void block(size_t at) const {
    const size_t lanes = hn::Lanes(D());
    const int sources = kSources ? kSources : r_.source_count;
    V a[kVectors];
    int next = 0;

    if (r_.partial_in) {
      for (size_t k = 0; k < kVectors; ++k) {
        a[k] = load(D(), r_.partial_in + (at + k * lanes) * sizeof(Wide));
      }
    } else {
      const std::byte* from = source(0, at);
      for (size_t k = 0; k < kVectors; ++k) {
        a[k] = Format::read(from + k * lanes * Format::kBytes);
      }
      next = 1;
    }

    for (; next < sources; ++next) {
      const std::byte* from = source(next, at);
      for (size_t k = 0; k < kVectors; ++k) {
        a[k] = Operation::combine(D(), a[k], Format::read(from + k * lanes * Format::kBytes));
      }
    }

    if (r_.partial_out) {
      for (size_t k = 0; k < kVectors; ++k) {
        store(D(), a[k], r_.partial_out + (at + k * lanes) * sizeof(Wide));
      }
      return;
    }

    for (size_t k = 0; k < kVectors; ++k) {
      a[k] = finish(a[k]);
    }

    for (int i = 0; i < r_.destination_count; ++i) {
      std::byte* to = destination(i, at);
      for (size_t k = 0; k < kVectors; ++k) {
        Format::write(a[k], to + k * lanes * Format::kBytes);
      }
    }
  }

  // Copies less than a vector without calling memcpy(), which for a few words would cost more than
  // the arithmetic.
  static HWY_INLINE void copy_few(std::byte* to, const std::byte* from, size_t bytes) {
    if constexpr (HWY_MAX_BYTES > 32) {
      if (bytes >= 32) return copy_ends<32>(to, from, bytes);
    }

    if constexpr (HWY_MAX_BYTES > 16) {
      if (bytes >= 16) return copy_ends<16>(to, from, bytes);
    }

    if constexpr (HWY_MAX_BYTES > 8) {
      if (bytes >= 8) return copy_ends<8>(to, from, bytes);
    }

    if (bytes >= 4) return copy_ends<4>(to, from, bytes);
    if (bytes >= 2) return copy_ends<2>(to, from, bytes);
    if (bytes == 1) *to = *from;
  }
  // Copies two pieces that meet or overlap; both are loaded before one is stored.
  template <size_t kPiece>
  static HWY_INLINE void copy_ends(std::byte* to, const std::byte* from, size_t bytes) {
    std::byte first[kPiece];
    std::byte last[kPiece];
    std::memcpy(first, from, kPiece);
    std::memcpy(last, from + bytes - kPiece, kPiece);
    std::memcpy(to, first, kPiece);
    std::memcpy(to + bytes - kPiece, last, kPiece);
  }

  // Reads less than a vector, padded with zeros.
  static HWY_INLINE V read_part(const std::byte* from, size_t count) {
    if constexpr (kLoadsParts<Format>) return load_part(D(), from, count);
    HWY_ALIGN std::byte padded[HWY_MAX_BYTES] = {};
    copy_few(padded, from, count * Format::kBytes);
    return Format::read(padded);
  }

  void rest(size_t at, size_t count) const {
    HWY_ALIGN std::byte buffer[HWY_MAX_BYTES];
    V a = hn::Zero(D());
    int next = 0;
    if (r_.partial_in) {
      std::memset(buffer, 0, sizeof buffer);
      copy_few(buffer, r_.partial_in + at * sizeof(Wide), count * sizeof(Wide));
      a = load(D(), buffer);
    } else {
      a = read_part(source(0, at), count);
      next = 1;
    }

    for (; next < r_.source_count; ++next) {
      a = Operation::combine(D(), a, read_part(source(next, at), count));
    }

    if (r_.partial_out) {
      store(D(), a, buffer);
      copy_few(r_.partial_out + at * sizeof(Wide), buffer, count * sizeof(Wide));
      return;
    }

    Format::write(finish(a), buffer);
    for (int i = 0; i < r_.destination_count; ++i) {
      copy_few(destination(i, at), buffer, count * Format::kBytes);
    }
  }

  template <int kSources>
  HWY_INLINE void loop() const {
    constexpr int kVectors = 4;
    const size_t lanes = hn::Lanes(D());
    size_t at = 0;
    for (; at + kVectors * lanes <= r_.count; at += kVectors * lanes) {
      block<kVectors, kSources>(at);
    }
    for (; at + lanes <= r_.count; at += lanes) {
      block<1, kSources>(at);
    }
    if (at < r_.count) rest(at, r_.count - at);
  }

 public:
  explicit Reducer(const Reduction& r) : r_(r), divisor_(r.op == Op::avg ? r.ranks : 0) {}

  static void run(const Reduction& r) {
    const Reducer self(r);
    // Sums of two ranks are the most frequent; for everything else one loop is as
    // good, and quicker to compile.
    if (std::is_same_v<Operation, Sum> && r.source_count == 2 && !r.partial_in && !r.partial_out) {
      self.template loop<std::is_same_v<Operation, Sum> ? 2 : 0>();
    } else {
      self.template loop<0>();
    }
  }
};

template <class Format>
Kernel find_operation(Op op) {
  switch (op) {
    case Op::sum:
    case Op::avg: return &Reducer<Format, Sum>::run;
    case Op::min: return &Reducer<Format, Min>::run;
    case Op::max: return &Reducer<Format, Max>::run;
    case Op::prod: return &Reducer<Format, Product>::run;
  }
  return nullptr;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace symm::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
