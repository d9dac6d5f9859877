// Small helpers that the algorithms share: the bytes, the operands and the scratch of a call.
#pragma once

#include <cstddef>

#include "kernels/collective.hpp"
#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/execution.hpp"
#include "kernels/host/pointers.hpp"
#include "kernels/host/steps.hpp"

namespace symm::host {
// Bytes of `count` elements: of the whole vector, or of one rank's block where the
// operand has one block per rank.
inline size_t bytes_of(const Execution& x) noexcept { return x.call.unit(); }

inline std::byte* scratch_of(const Execution& x, int rank) noexcept { return x.scratch[rank]; }

inline void copy_planned(
    const Execution& x, std::byte* to, const std::byte* from, size_t bytes) noexcept {
  copy(to, from, bytes, x.plan.nontemporal);
}

// The reduction of the operands that this rank's result is made of; the caller adds offsets.
inline Reduction reduction_of(
    const Execution& x, const std::byte* const* sources, size_t bytes) noexcept {
  const int operands = ranks_combined(x.call.collective, x.rank, x.size);
  Reduction reduction = reduction_of(x.call, sources, operands, x.size, bytes);
  reduction.nontemporal = x.plan.nontemporal;
  return reduction;
}

inline void reduce_into(
    const Execution& x, const std::byte* const* sources, std::byte* to, size_t bytes) noexcept {
  Reduction reduction = reduction_of(x, sources, bytes);
  reduction.destinations = &to;
  reduction.destination_count = 1;
  reduce(reduction);
}

// The operand that `rank` published when it entered. This rank's own is read from send: the cache
// line that was published has moved to the rank that read it.
inline const std::byte* entered_operand(const Execution& x, int rank) {
  return rank == x.rank ? x.send() : x.sync.await_entry(rank);
}

// The last step of a zero-copy form: after it, others have read this rank's operands and
// written their parts of them.
inline void leave_together(const Execution& x) {
  x.sync.arrive();
  x.sync.await_all(x.size);
}
}  // namespace symm::host
