// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/algorithms.hpp"
#include "kernels/host/operands.hpp"
#include "kernels/host/publish.hpp"

namespace symm::host {

void allgather_ll(const Call& call) {
  const size_t block = bytes_of(call);
  call.sync->enter(call.send, block);
  for (int peer = 0; peer < call.size; ++peer)
    copy(call.recv + block * static_cast<size_t>(peer), entered_operand(call, peer), block, false);
}

void allgather_staged(const Call& call) {
  const size_t block = bytes_of(call);
  const Chunks chunks = planned_chunks(call, block);
  const size_t slot_bytes = chunks[0].size();
  publish(
      call, chunks.count(), Part{},
      [&](size_t round) {
        const Range chunk = chunks[round];
        copy(scratch_of(call, call.rank) + slot_of(round, slot_bytes), call.send + chunk.begin, chunk.size(), false);
      },
      [&](size_t round) {
        const Range chunk = chunks[round];
        std::byte* to = call.recv + chunk.begin;
        for (int peer = 0; peer < call.size; ++peer, to += block) {
          const std::byte* from =
              peer == call.rank ? call.send + chunk.begin : scratch_of(call, peer) + slot_of(round, slot_bytes);
          copy_planned(call, to, from, chunk.size());
        }
      });
}

// Each rank reads from the others, rather than writing to them: the result ends up in the cache of who wants it. Starting after
// itself, so that not all read from one rank at a time. In place nobody writes to the block that others read.
void allgather_zero_copy(const Call& call) {
  const size_t block = bytes_of(call);
  for (int step = 0; step < call.size; ++step) {
    const auto peer = static_cast<size_t>((int64_t{call.rank} + step) % call.size);
    copy_planned(call, call.recv + block * peer, peer == static_cast<size_t>(call.rank) ? call.send : call.peer_send[peer],
                 block);
  }
  leave_together(call);
}

}  // namespace symm::host
