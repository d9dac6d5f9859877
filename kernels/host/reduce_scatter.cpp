// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/algorithms.hpp"
#include "kernels/host/operands.hpp"
#include "kernels/host/publish.hpp"

namespace symm::host {

void reduce_scatter_ll(const Call& call) {
  const size_t block = bytes_of(call);
  call.sync->enter(call.send, block * static_cast<size_t>(call.size));
  Sources sources(call.size);
  for (int peer = 0; peer < call.size; ++peer)
    sources[peer] = entered_operand(call, peer) + block * static_cast<size_t>(call.rank);
  reduce_into(call, sources.data(), call.recv, block);
}

// A slot holds the same chunk of every other rank's block.
void reduce_scatter_staged(const Call& call) {
  const size_t block = bytes_of(call);
  const Chunks chunks = planned_chunks(call, block);
  const size_t piece = chunks[0].size();
  const size_t slot_bytes = piece * static_cast<size_t>(call.size);
  Sources sources(call.size);
  publish(
      call, chunks.count(), Part{},
      [&](size_t round) {
        const Range chunk = chunks[round];
        std::byte* to = scratch_of(call, call.rank) + slot_of(round, slot_bytes);
        const std::byte* from = call.send + chunk.begin;
        for (int peer = 0; peer < call.size; ++peer, to += piece, from += block)
          if (peer != call.rank) copy(to, from, chunk.size(), false);
      },
      [&](size_t round) {
        const Range chunk = chunks[round];
        const size_t at = slot_of(round, slot_bytes) + piece * static_cast<size_t>(call.rank);
        for (int peer = 0; peer < call.size; ++peer) sources[peer] = scratch_of(call, peer) + at;
        sources[call.rank] = call.send + block * static_cast<size_t>(call.rank) + chunk.begin;
        reduce_into(call, sources.data(), call.recv + chunk.begin, chunk.size());
      });
}

// Every rank reads its block of everybody's operand. In place it writes to its own block, which nobody else reads.
void reduce_scatter_zero_copy(const Call& call) {
  const size_t block = bytes_of(call);
  Reduction reduction = reduction_of(call, call.peer_send, block);
  reduction.source_offset = block * static_cast<size_t>(call.rank);
  reduction.destinations = &call.recv;
  reduction.destination_count = 1;
  reduce(reduction);
  leave_together(call);
}

}  // namespace symm::host
