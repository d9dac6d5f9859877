// Elements of two parts: products of complex numbers, and the extreme value among pairs of a value
// and an index. They are rare, so there is one form for all instruction sets. Sums of complex
// numbers are not here: they are sums of twice as many real ones.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/arithmetic/table.hpp"
#include "kernels/tree_order.hpp"
#include "kernels/types.hpp"

namespace symm::host {
namespace {
template <class Part>
struct ComplexProduct {
  struct Element {
    Part real;
    Part imaginary;
  };

  // Each product and each sum of two of them is rounded, without the cases of infinities that the
  // operator of C looks for.
  static Element combine(const Element& a, const Element& x) {
    return {
        a.real * x.real - a.imaginary * x.imaginary, a.real * x.imaginary + a.imaginary * x.real};
  }
};

// `x` replaces the accumulator if its value is strictly better, or NaN where the other is none; or
// if neither is better and its index is lower.
template <class Value, class Index, bool kLess>
struct BestPair {
  struct Element {
    Value value;
    Index index;
  };

  static bool is_nan(Value value) {
    if constexpr (std::is_floating_point_v<Value>) return std::isnan(value);
    return false;
  }

  static Element combine(const Element& a, const Element& x) {
    const bool is_better = kLess ? x.value < a.value : a.value < x.value;
    const bool is_worse = kLess ? a.value < x.value : x.value < a.value;
    const bool a_wins = is_nan(a.value) ? !is_nan(x.value) : is_worse;
    const bool x_wins = is_nan(x.value) ? !is_nan(a.value) : is_better;
    return x_wins || (!a_wins && x.index < a.index) ? x : a;
  }
};

template <class Operation>
class PartsReducer {
  using Element = typename Operation::Element;

  // Elements that are combined at a time.
  struct Block {
    static constexpr size_t kMost = 32;
    Element at[kMost];
  };

  const Reduction& r_;
  const size_t first_;
  const size_t count_;

  Block loaded(const std::byte* from) const {
    Block block;
    std::memcpy(block.at, from + first_ * sizeof(Element), count_ * sizeof(Element));
    return block;
  }
  Block source(int i) const { return loaded(r_.sources[i] + r_.source_offset); }

  Block combined(const Block& left, const Block& right) const {
    Block all;
    for (size_t i = 0; i < count_; ++i) {
      all.at[i] = Operation::combine(left.at[i], right.at[i]);
    }
    return all;
  }

  Block in_rank_order() const {
    int next = 0;
    Block all = r_.partial_in ? loaded(r_.partial_in) : source(next++);
    for (; next < r_.source_count; ++next) {
      all = combined(all, source(next));
    }
    return all;
  }

  Block in_tree_order() const {
    Block waiting[kMostWaiting];
    int depth = 0;
    for (int i = 0;; ++i) {
      Block all = source(i);
      const bool is_last = i + 1 == r_.source_count;
      for (int merges = is_last ? depth : merges_after(i); merges > 0; --merges) {
        all = combined(waiting[--depth], all);
      }
      if (is_last) return r_.partial_in ? combined(loaded(r_.partial_in), all) : all;
      waiting[depth++] = all;
    }
  }

  // All loads come before the first store, so a destination may be a source.
  void combine() const {
    const Block all = r_.in_tree && r_.source_count > 0 ? in_tree_order() : in_rank_order();
    const size_t bytes = count_ * sizeof(Element);
    const size_t at = first_ * sizeof(Element);
    if (r_.partial_out) {
      std::memcpy(r_.partial_out + at, all.at, bytes);
      return;
    }
    for (int i = 0; i < r_.destination_count; ++i) {
      std::memcpy(r_.destinations[i] + r_.destination_offset + at, all.at, bytes);
    }
  }

  PartsReducer(const Reduction& r, size_t first)
      : r_(r), first_(first), count_(std::min(Block::kMost, r.count - first)) {}

 public:
  static void run(const Reduction& r) {
    for (size_t at = 0; at < r.count; at += Block::kMost) {
      PartsReducer(r, at).combine();
    }
  }
};

template <class Value, class Index>
Kernel find_best(Op op) {
  return op == Op::minloc ? &PartsReducer<BestPair<Value, Index, true>>::run
                          : &PartsReducer<BestPair<Value, Index, false>>::run;
}
}  // namespace

Kernel find_for_two_parts(DType dtype, Op op) noexcept {
  switch (dtype) {
    case DType::c64: return &PartsReducer<ComplexProduct<float>>::run;
    case DType::c128: return &PartsReducer<ComplexProduct<double>>::run;
    case DType::i32_i32: return find_best<int32_t, int32_t>(op);
    case DType::i64_i64: return find_best<int64_t, int64_t>(op);
    case DType::f32_i32: return find_best<float, int32_t>(op);
    case DType::f64_i64: return find_best<double, int64_t>(op);
    default: return nullptr;
  }
}
}  // namespace symm::host
