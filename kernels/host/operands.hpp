// SPDX-License-Identifier: Apache-2.0
//
// Small things that every algorithm says about its call.
#pragma once

#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/call.hpp"
#include "kernels/host/pointers.hpp"
#include "kernels/host/steps.hpp"

namespace symm::host {

// Bytes of `count` elements: of the whole vector, or of one rank's block where the operand has one block per rank.
inline size_t bytes_of(const Call& call) noexcept { return call.count * size_of(call.dtype); }

inline std::byte* scratch_of(const Call& call, int rank) noexcept { return call.scratch[rank]; }

inline void copy_planned(const Call& call, std::byte* to, const std::byte* from, size_t bytes) noexcept {
  copy(to, from, bytes, call.plan.nontemporal);
}

// The reduction of all ranks' operands to one destination; the caller adds offsets.
inline Reduction reduction_of(const Call& call, const std::byte* const* sources, size_t bytes) noexcept {
  Reduction reduction;
  reduction.dtype = call.dtype;
  reduction.op = call.op;
  reduction.count = bytes / size_of(call.dtype);
  reduction.sources = sources;
  reduction.source_count = call.size;
  reduction.ranks = call.size;
  reduction.nontemporal = call.plan.nontemporal;
  return reduction;
}

inline void reduce_into(const Call& call, const std::byte* const* sources, std::byte* to, size_t bytes) noexcept {
  Reduction reduction = reduction_of(call, sources, bytes);
  reduction.destinations = &to;
  reduction.destination_count = 1;
  reduce(reduction);
}

// What `rank` published on entering, or mine from where it comes from: the line that holds it has gone to the rank that read it,
// and would have to come back.
inline const std::byte* entered_operand(const Call& call, int rank) {
  return rank == call.rank ? call.send : call.sync->await_entry(rank);
}

// The last step of a zero-copy form: others have read my operands and written their parts of mine.
inline void leave_together(const Call& call) {
  call.sync->arrive();
  call.sync->await_all(call.size);
}

}  // namespace symm::host
