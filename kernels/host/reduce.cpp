// SPDX-License-Identifier: Apache-2.0
//
// Like all-reduce with one taker.
#include "kernels/host/execution.hpp"
#include "kernels/host/operands.hpp"
#include "kernels/host/publish.hpp"
#include "kernels/host/two_shot_staged.hpp"

namespace symm::host {

void reduce_ll(const Execution& x) {
  const size_t bytes = bytes_of(x);
  x.sync.enter(x.send(), bytes);
  if (x.rank != x.call.root) return;
  Sources sources(x.size);
  for (int peer = 0; peer < x.size; ++peer) sources[peer] = entered_operand(x, peer);
  reduce_into(x, sources.data(), x.recv(), bytes);
}

void reduce_one_shot(const Execution& x) {
  const bool is_root = x.rank == x.call.root;
  const Chunks chunks = planned_chunks(x, bytes_of(x));
  const size_t slot_bytes = chunks[0].size();
  const Part part = is_root ? Part{false, true, kEveryRank} : Part{true, false, x.call.root};
  Sources sources(x.size);
  publish(
      x, chunks.count(), part,
      [&](size_t round) {
        const Range chunk = chunks[round];
        copy(scratch_of(x, x.rank) + slot_of(round, slot_bytes), x.send() + chunk.begin, chunk.size(), false);
      },
      [&](size_t round) {
        const Range chunk = chunks[round];
        for (int peer = 0; peer < x.size; ++peer) sources[peer] = scratch_of(x, peer) + slot_of(round, slot_bytes);
        sources[x.rank] = x.send() + chunk.begin;
        reduce_into(x, sources.data(), x.recv() + chunk.begin, chunk.size());
      });
}

// Zero copy: every rank combines its slice into the root's result.
void reduce_two_shot(const Execution& x) {
  const Range mine = slice(bytes_of(x), x.rank, x.size);
  Reduction reduction = reduction_of(x, x.peer_send, mine.size());
  reduction.source_offset = mine.begin;
  reduction.destinations = x.peer_recv + x.call.root;
  reduction.destination_count = 1;
  reduction.destination_offset = mine.begin;
  reduce(reduction);
  leave_together(x);
}

void reduce_two_shot_staged(const Execution& x) { two_shot_staged(x, x.rank == x.call.root); }

}  // namespace symm::host
