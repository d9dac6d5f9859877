// SPDX-License-Identifier: Apache-2.0
//
// Every rank publishes its operand in its own scratch, and every rank combines all of them: one hop, size times the arithmetic.
#include "kernels/host/algorithms.hpp"
#include "kernels/host/operands.hpp"
#include "kernels/host/publish.hpp"

namespace symm::host {

void allreduce_one_shot(const Call& call) {
  const Chunks chunks = planned_chunks(call, bytes_of(call));
  const size_t slot_bytes = call.plan.chunk_bytes;
  Sources sources(call.size);
  publish(
      call, chunks.count(), Part{},
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

}  // namespace symm::host
