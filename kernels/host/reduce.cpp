// SPDX-License-Identifier: Apache-2.0
//
// Like all-reduce with one taker.
#include "kernels/host/algorithms.hpp"
#include "kernels/host/operands.hpp"
#include "kernels/host/publish.hpp"
#include "kernels/host/two_shot_staged.hpp"

namespace symm::host {

void reduce_ll(const Call& call) {
  const size_t bytes = bytes_of(call);
  call.sync->enter(call.send, bytes);
  if (call.rank != call.root) return;
  Sources sources(call.size);
  for (int peer = 0; peer < call.size; ++peer) sources[peer] = entered_operand(call, peer);
  reduce_into(call, sources.data(), call.recv, bytes);
}

void reduce_one_shot(const Call& call) {
  const bool is_root = call.rank == call.root;
  const Chunks chunks = planned_chunks(call, bytes_of(call));
  const size_t slot_bytes = chunks[0].size();
  const Part part = is_root ? Part{false, true, kEveryRank} : Part{true, false, call.root};
  Sources sources(call.size);
  publish(
      call, chunks.count(), part,
      [&](size_t round) {
        const Range chunk = chunks[round];
        copy(scratch_of(call, call.rank) + slot_of(round, slot_bytes), call.send + chunk.begin, chunk.size(), false);
      },
      [&](size_t round) {
        const Range chunk = chunks[round];
        for (int peer = 0; peer < call.size; ++peer) sources[peer] = scratch_of(call, peer) + slot_of(round, slot_bytes);
        sources[call.rank] = call.send + chunk.begin;
        reduce_into(call, sources.data(), call.recv + chunk.begin, chunk.size());
      });
}

// Zero copy: every rank combines its slice into the root's result.
void reduce_two_shot(const Call& call) {
  const Range mine = slice(bytes_of(call), call.rank, call.size);
  Reduction reduction = reduction_of(call, call.peer_send, mine.size());
  reduction.source_offset = mine.begin;
  reduction.destinations = call.peer_recv + call.root;
  reduction.destination_count = 1;
  reduction.destination_offset = mine.begin;
  reduce(reduction);
  leave_together(call);
}

void reduce_two_shot_staged(const Call& call) { two_shot_staged(call, call.rank == call.root); }

}  // namespace symm::host
