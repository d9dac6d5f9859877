// The reduction loop, for any format and operation. Included once per instruction set.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/tree_order.hpp"
#include "kernels/types.hpp"
#if defined(SYMM_KERNEL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SYMM_KERNEL_INL
#undef SYMM_KERNEL_INL
#else
#define SYMM_KERNEL_INL
#endif

#include <algorithm>
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

// Bitwise operators are of unsigned integers here: reduce() has bytes of all that is bitwise.
struct BitAnd {
  template <class D>
  static HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> x) {
    return hn::And(a, x);
  }
};
struct BitOr {
  template <class D>
  static HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> x) {
    return hn::Or(a, x);
  }
};
struct BitXor {
  template <class D>
  static HWY_INLINE hn::Vec<D> combine(D, hn::Vec<D> a, hn::Vec<D> x) {
    return hn::Xor(a, x);
  }
};

// Whether the order in which numbers of type T are combined changes the result.
template <class T, class Operation>
inline constexpr bool kHasOrder = std::is_floating_point_v<T> && !std::is_same_v<Operation, Min> &&
                                  !std::is_same_v<Operation, Max>;

// How sources are combined: in the order of ranks, or as a tree of few or of any number of them.
enum class Shape : uint8_t { ranks, few_in_tree, many_in_tree };

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

  // Elements of one operand, or of the accumulator, that are combined at a time.
  template <int kVectors>
  struct Block {
    V at[kVectors];
  };

  template <int kVectors>
  static HWY_INLINE void combine(Block<kVectors>& a, const Block<kVectors>& x) {
    for (size_t k = 0; k < kVectors; ++k) {
      a.at[k] = Operation::combine(D(), a.at[k], x.at[k]);
    }
  }

  template <int kVectors>
  static HWY_INLINE void combine_with_left(Block<kVectors>& x, const Block<kVectors>& a) {
    for (size_t k = 0; k < kVectors; ++k) {
      x.at[k] = Operation::combine(D(), a.at[k], x.at[k]);
    }
  }

  // Reads whole vectors of the operands, from element `at` on.
  template <int kVectors>
  struct Vectors {
    using Elements = Block<kVectors>;
    const Reducer& of;
    size_t at;

    HWY_INLINE Elements operand(int i) const {
      const std::byte* from = of.source(i, at);
      Elements a;
      for (size_t k = 0; k < kVectors; ++k) {
        a.at[k] = Format::read(from + k * hn::Lanes(D()) * Format::kBytes);
      }
      return a;
    }
    HWY_INLINE Elements partial() const {
      Elements a;
      for (size_t k = 0; k < kVectors; ++k) {
        a.at[k] = load(D(), of.r_.partial_in + (at + k * hn::Lanes(D())) * sizeof(Wide));
      }
      return a;
    }
  };

  // kSources is the number of sources, or 0 if it is known at run time only.
  template <int kSources, class Read>
  HWY_INLINE typename Read::Elements in_rank_order(const Read& read) const {
    const int sources = kSources ? kSources : r_.source_count;
    int next = 0;
    typename Read::Elements a = r_.partial_in ? read.partial() : read.operand(next++);
    for (; next < sources; ++next) {
      combine(a, read.operand(next));
    }
    return a;
  }

  // The tree of up to four sources.
  template <class Read>
  HWY_INLINE typename Read::Elements small_tree(const Read& read, int first, int sources) const {
    typename Read::Elements a = read.operand(first);
    if (sources == 4) {
      combine(a, read.operand(first + 1));
      typename Read::Elements b = read.operand(first + 2);
      combine(b, read.operand(first + 3));
      combine(a, b);
      return a;
    }
    for (int next = 1; next < sources; ++next) {
      combine(a, read.operand(first + next));
    }
    return a;
  }

  static constexpr int kFew = 8;

  // The tree of up to kFew sources, which stays in registers: a tree that goes through memory takes
  // 1.1 to 1.7 times as long.
  template <class Read>
  HWY_INLINE typename Read::Elements few_in_tree(const Read& read, int first, int sources) const {
    constexpr int kHalf = kFew / 2;
    typename Read::Elements a = small_tree(read, first, std::min(kHalf, sources));
    if (sources > kHalf) combine(a, small_tree(read, first + kHalf, sources - kHalf));
    return a;
  }

  // The tree of any number of sources is a tree of trees of kFew, of which the last may be smaller.
  template <class Read>
  HWY_INLINE typename Read::Elements many_in_tree(const Read& read) const {
    typename Read::Elements waiting[kMostWaiting];
    int depth = 0;
    for (int first = 0;; first += kFew) {
      typename Read::Elements a = few_in_tree(read, first, std::min(kFew, r_.source_count - first));
      const bool is_last = first + kFew >= r_.source_count;
      for (int merges = is_last ? depth : merges_after(first / kFew); merges > 0; --merges) {
        combine_with_left(a, waiting[--depth]);
      }
      if (is_last) return a;
      waiting[depth++] = a;
    }
  }

  template <bool kAreFew, class Read>
  HWY_INLINE typename Read::Elements in_tree_order(const Read& read) const {
    if (r_.partial_in && r_.source_count == 0) return read.partial();
    typename Read::Elements a =
        kAreFew ? few_in_tree(read, 0, r_.source_count) : many_in_tree(read);
    if (r_.partial_in) combine_with_left(a, read.partial());
    return a;
  }

  template <int kSources, Shape kShape, class Read>
  HWY_INLINE typename Read::Elements combined(const Read& read) const {
    if constexpr (kShape == Shape::ranks) {
      return in_rank_order<kSources>(read);
    } else {
      return in_tree_order<kShape == Shape::few_in_tree>(read);
    }
  }

  // All loads of a block come before its first store, so a destination may be a source.
  template <int kVectors, int kSources, Shape kShape>
  HWY_INLINE void block(size_t at) const {
    const size_t lanes = hn::Lanes(D());
    Block<kVectors> a = combined<kSources, kShape>(Vectors<kVectors>{*this, at});
    if (r_.partial_out) {
      for (size_t k = 0; k < kVectors; ++k) {
        store(D(), a.at[k], r_.partial_out + (at + k * lanes) * sizeof(Wide));
      }
      return;
    }

    for (size_t k = 0; k < kVectors; ++k) {
      a.at[k] = finish(a.at[k]);
    }

    for (int i = 0; i < r_.destination_count; ++i) {
      std::byte* to = destination(i, at);
      for (size_t k = 0; k < kVectors; ++k) {
        Format::write(a.at[k], to + k * lanes * Format::kBytes);
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

  // Reads the last elements of the operands, which are less than a vector.
  struct LastElements {
    using Elements = Block<1>;
    const Reducer& of;
    size_t at;
    size_t count;

    HWY_INLINE Elements operand(int i) const { return {{read_part(of.source(i, at), count)}}; }
    HWY_INLINE Elements partial() const {
      HWY_ALIGN std::byte buffer[HWY_MAX_BYTES] = {};
      copy_few(buffer, of.r_.partial_in + at * sizeof(Wide), count * sizeof(Wide));
      return {{load(D(), buffer)}};
    }
  };

  template <Shape kShape>
  void rest(size_t at, size_t count) const {
    HWY_ALIGN std::byte buffer[HWY_MAX_BYTES];
    const V a = combined<0, kShape>(LastElements{*this, at, count}).at[0];
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

  // What is left of a loop: less than kVectors vectors.
  template <int kSources, Shape kShape>
  void tail(size_t at) const {
    const size_t lanes = hn::Lanes(D());
    for (; at + lanes <= r_.count; at += lanes) {
      block<1, kSources, kShape>(at);
    }
    if (at < r_.count) rest<kShape>(at, r_.count - at);
  }

  template <int kSources, Shape kShape>
  HWY_INLINE void loop() const {
    constexpr int kVectors = 4;
    const size_t step = kVectors * hn::Lanes(D());
    size_t at = 0;
    for (; at + step <= r_.count; at += step) {
      block<kVectors, kSources, kShape>(at);
    }
    if (at == r_.count) return;
    tail<kSources, kShape == Shape::few_in_tree ? Shape::many_in_tree : kShape>(at);
  }

 public:
  explicit Reducer(const Reduction& r) : r_(r), divisor_(r.op == Op::avg ? r.ranks : 0) {}

  static void run(const Reduction& r) {
    const Reducer self(r);
    // Trees of so few sources are in rank order.
    const bool is_small = r.source_count <= (r.partial_in ? 1 : 3);
    if constexpr (kHasOrder<Wide, Operation>) {
      if (r.in_tree && !is_small) {
        return r.source_count <= kFew ? self.template loop<0, Shape::few_in_tree>()
                                      : self.template loop<0, Shape::many_in_tree>();
      }
    }
    // Sums of two ranks are the most frequent; for everything else one loop is as
    // good, and quicker to compile.
    if (std::is_same_v<Operation, Sum> && r.source_count == 2 && !r.partial_in && !r.partial_out) {
      self.template loop<std::is_same_v<Operation, Sum> ? 2 : 0, Shape::ranks>();
    } else {
      self.template loop<0, Shape::ranks>();
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
    default: return nullptr;
  }
}

inline Kernel find_bitwise(Op op) {
  using Bytes = NativeElement<uint8_t>;
  switch (op) {
    case Op::band: return &Reducer<Bytes, BitAnd>::run;
    case Op::bor: return &Reducer<Bytes, BitOr>::run;
    case Op::bxor: return &Reducer<Bytes, BitXor>::run;
    default: return nullptr;
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace symm::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
