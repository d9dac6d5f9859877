// The arithmetic of all collectives: combine the operands of several ranks, in rank order or in
// tree order, in one pass over memory.
//
// Small floats (f16, bf16, f8) are combined in f32 and rounded once, to nearest even. Finite
// results of f8 saturate at its largest finite value; an infinity stays one, or is NaN in
// f8e4m3, which has none. Bytes of a bool other than 0 are true, results 0 or 1: sum and max
// are "or", min and prod "and". Integers wrap, and their average truncates towards zero. Min
// and max give NaN if any operand is NaN, and the first of equals (so of -0.0 and +0.0). Pairs
// give the best value, of equal ones that with the lowest index, and so of NaNs, which beat
// numbers. The product of complex numbers rounds each product and each sum. The bits do not depend
// on the instruction set, on alignment, on how many elements are combined at a time, or on the
// caller's floating-point environment.
#pragma once

#include <cstddef>

#include "kernels/collective_call.hpp"
#include "kernels/number.hpp"
#include "kernels/scaled_call.hpp"
#include "kernels/types.hpp"

namespace symm::host {
struct Reduction {
  DType dtype{};
  Op op{};
  size_t count = 0;
  const std::byte* const* sources = nullptr;
  int source_count = 0;
  size_t source_offset = 0;  // bytes, added to every source
  // A destination may be equal to one source, but not overlap it otherwise.
  std::byte* const* destinations = nullptr;
  int destination_count = 0;
  size_t destination_offset = 0;  // bytes, added to every destination
  int ranks = 1;                  // what an average divides by
  bool nontemporal = false;       // write past the cache
  // The sources are partial results of f8, and dtype is their type, f32: a product of finite ones
  // saturates.
  bool saturates = false;
  // The sources are combined in tree order (kernels/tree_order.hpp), and partial_in with that.
  bool in_tree = false;
  // Accumulators of size_of_partial(dtype) bytes each, for a reduction that one rank
  // begins and another ends. With partial_in the sources are combined into it; with
  // partial_out the result goes there, unrounded, and there are no destinations.
  const std::byte* partial_in = nullptr;
  std::byte* partial_out = nullptr;
};

// Returns a reduction of `bytes` bytes of each operand of `sources`. The caller adds
// the destinations.
inline Reduction reduction_of(const CallSignature& call, const std::byte* const* sources,
    int source_count, int ranks, size_t bytes) noexcept {
  Reduction reduction;
  reduction.dtype = call.dtype;
  reduction.op = call.op;
  reduction.count = bytes / size_of(call.dtype);
  reduction.sources = sources;
  reduction.source_count = source_count;
  reduction.ranks = ranks;
  reduction.in_tree = call.order == Order::tree;
  return reduction;
}

size_t size_of_partial(DType dtype) noexcept;

// Returns a reduction like `of` whose sources are its partial results. The caller adds these.
Reduction of_partials(const Reduction& of) noexcept;

// A reduction of no sources and no partial_in gives the neutral element of the operator: what
// changes no other in it. Of a minimum or maximum that is an infinity, or if the type has none, its
// largest number, of that sign.
void reduce(const Reduction& reduction) noexcept;

// Gives destination r the combination of sources 0 .. r, or if `exclusive` of 0 .. r-1, each
// rounded once. There are as many destinations as sources, and they have no offset of partial
// results. Destination r may be equal to source r.
void reduce_prefixes(const Reduction& reduction, bool exclusive) noexcept;

// Converts operands before or after a plain call, and scales them by `factor` if the conversion
// asks for it. A narrowing conversion scales in place in `from`, which is scratch.
void convert(const Conversion& conversion, Number factor) noexcept;

// Copies bytes; `to` may be equal to `from`. Non-temporal stores are used if asked
// for and the size allows.
void copy(std::byte* to, const std::byte* from, size_t bytes, bool nontemporal) noexcept;

// Copies to memory that another processor reads, and may have read before. Where an ordinary store
// waits long until that one has given up the line, long copies use non-temporal stores, which wait
// for nothing, whether asked for or not.
void copy_to_peer(std::byte* to, const std::byte* from, size_t bytes, bool nontemporal) noexcept;
}  // namespace symm::host
