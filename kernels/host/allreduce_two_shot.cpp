// SPDX-License-Identifier: Apache-2.0
//
// Zero copy: each rank combines its slice of everybody's operand and stores it to everybody's result. In place this is safe,
// since a slice is read and written by its owner only.
#include "kernels/host/algorithms.hpp"
#include "kernels/host/operands.hpp"
#include "kernels/host/slices.hpp"

namespace symm::host {

void allreduce_two_shot(const Call& call) {
  const Range mine = slice(bytes_of(call), call.rank, call.size);
  Reduction reduction = reduction_of(call, call.peer_send, mine.size());
  reduction.source_offset = mine.begin;
  reduction.destinations = call.peer_recv;
  reduction.destination_count = call.size;
  reduction.destination_offset = mine.begin;
  reduce(reduction);
  leave_together(call);
}

}  // namespace symm::host
