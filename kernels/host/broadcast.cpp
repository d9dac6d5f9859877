// SPDX-License-Identifier: Apache-2.0
//
// Data flows one way: the root waits for the others only before it overwrites what they may still read, and they for the root
// only.
#include "kernels/host/algorithms.hpp"
#include "kernels/host/operands.hpp"
#include "kernels/host/publish.hpp"

namespace symm::host {

void broadcast_ll(const Call& call) {
  const size_t bytes = bytes_of(call);
  if (call.rank == call.root) {
    call.sync->enter(call.send, bytes);
    copy(call.recv, call.send, bytes, false);
  } else {
    call.sync->enter(nullptr, 0);
    copy(call.recv, call.sync->await_entry(call.root), bytes, false);
  }
}

void broadcast_staged(const Call& call) {
  const bool is_root = call.rank == call.root;
  const Chunks chunks = planned_chunks(call, bytes_of(call));
  const size_t slot_bytes = chunks[0].size();
  const Part part = is_root ? Part{true, false, kEveryRank} : Part{false, true, call.root};
  publish(
      call, chunks.count(), part,
      [&](size_t round) {
        const Range chunk = chunks[round];
        copy(scratch_of(call, call.rank) + slot_of(round, slot_bytes), call.send + chunk.begin, chunk.size(), false);
      },
      [&](size_t round) {
        const Range chunk = chunks[round];
        copy_planned(call, call.recv + chunk.begin, scratch_of(call, call.root) + slot_of(round, slot_bytes), chunk.size());
      });
  if (is_root) copy_planned(call, call.recv, call.send, bytes_of(call));
}

void broadcast_zero_copy(const Call& call) {
  copy_planned(call, call.recv, call.rank == call.root ? call.send : call.peer_send[call.root], bytes_of(call));
  call.sync->arrive();
  if (call.rank == call.root) call.sync->await_all(call.size);  // they have read my operand
}

}  // namespace symm::host
