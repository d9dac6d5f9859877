// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/algorithms.hpp"
#include "kernels/host/operands.hpp"
#include "kernels/host/publish.hpp"

namespace symm::host {

void alltoall_ll(const Call& call) {
  const size_t block = bytes_of(call);
  call.sync->enter(call.send, block * static_cast<size_t>(call.size));
  for (int peer = 0; peer < call.size; ++peer)
    copy(call.recv + block * static_cast<size_t>(peer), entered_operand(call, peer) + block * static_cast<size_t>(call.rank),
         block, false);
}

// A slot holds the same chunk of every other rank's block. In place, a chunk of recv is written after it went out as send.
void alltoall_staged(const Call& call) {
  const size_t block = bytes_of(call);
  const Chunks chunks = planned_chunks(call, block);
  const size_t piece = chunks[0].size();
  const size_t slot_bytes = piece * static_cast<size_t>(call.size);
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
        for (int peer = 0; peer < call.size; ++peer) {
          const size_t in_block = block * static_cast<size_t>(peer) + chunk.begin;
          copy_planned(call, call.recv + in_block, peer == call.rank ? call.send + in_block : scratch_of(call, peer) + at,
                       chunk.size());
        }
      });
}

// Out of place on all ranks only: my recv must not be what others still read.
void alltoall_zero_copy(const Call& call) {
  const size_t block = bytes_of(call);
  for (int step = 0; step < call.size; ++step) {
    const auto peer = static_cast<size_t>((int64_t{call.rank} + step) % call.size);
    const std::byte* operand = peer == static_cast<size_t>(call.rank) ? call.send : call.peer_send[peer];
    copy_planned(call, call.recv + block * peer, operand + block * static_cast<size_t>(call.rank), block);
  }
  leave_together(call);
}

}  // namespace symm::host
