// SPDX-License-Identifier: Apache-2.0
//
// The host plane's collectives: the plan, the exchange of where the operands lie, and the call of the algorithm.
#include <cstring>

#include "core/host/call_sync.hpp"
#include "core/host/plane.hpp"

namespace symm::host {

PlanInput HostPlane::plan_input(const CollectiveCall& call) const {
  PlanInput input;
  input.collective = call.collective;
  input.dtype = call.dtype;
  input.op = call.op;
  input.count = call.count;
  input.size = context_.size;
  input.forced = call.algorithm;
  input.scratch_bytes = scratch_bytes_;
  input.llc_bytes = llc_bytes_;
  return input;
}

namespace {

// Where a rank's operands lie, as published when it enters a call. Memory 0 is private memory.
struct Operands {
  uint64_t send_memory;
  uint64_t send_offset;
  uint64_t recv_memory;
  uint64_t recv_offset;
  uint64_t in_place;
};
static_assert(sizeof(Operands) <= kEntryPayload);

struct Extent {
  size_t send_bytes;
  size_t recv_bytes;
};

Extent extent_of(const CollectiveCall& call, int size) {
  const size_t unit = call.count * size_of(call.dtype);
  const size_t all = unit * static_cast<size_t>(size);
  switch (call.collective) {
    case Collective::reduce_scatter: return {all, unit};
    case Collective::allgather: return {unit, all};
    case Collective::alltoall: return {all, all};
    case Collective::allreduce:
    case Collective::broadcast:
    case Collective::reduce: return {unit, unit};
  }
  return {unit, unit};
}

// Which operands a zero-copy algorithm touches on which ranks.
struct Touched {
  RemoteOperands remote;
  int root;
  bool send_of(int rank) const { return remote.send && (!remote.root_only || remote.recv || rank == root); }
  bool recv_of(int rank) const { return remote.recv && (!remote.root_only || rank == root); }
};

Touched touched(const CollectiveCall& call) { return {remote_operands(call.collective), call.root}; }

struct Located {
  std::shared_ptr<const MemoryView> memory;
  size_t offset = 0;
};

Located locate(const MemoryDirectory* directory, const void* address, size_t bytes) {
  Located located;
  if (address != nullptr) located.memory = directory->containing(address, bytes, &located.offset);
  return located;
}

}  // namespace

// Could the call be zero-copy as far as this rank knows?
bool HostPlane::symmetric_here(const CollectiveCall& call) const {
  const Extent extent = extent_of(call, context_.size);
  const Touched touches = touched(call);
  if (touches.send_of(context_.rank) && !locate(context_.directory, call.send, extent.send_bytes).memory) return false;
  if (touches.recv_of(context_.rank) && !locate(context_.directory, call.recv, extent.recv_bytes).memory) return false;
  return !touches.remote.out_of_place || call.send != call.recv;
}

void HostPlane::require_possible(const PlanInput& input, const CollectiveCall& call) const {
  if (const std::string reason = refuse(input, symmetric_here(call)); !reason.empty()) {
    throw Error(Status::invalid_argument, "options.algorithm: " + reason);
  }
}

// All ranks tell each other where their operands lie. Zero-copy is possible if every operand that is touched from elsewhere is
// symmetric memory; all ranks see the same facts and so conclude the same. What a peer says is checked against the memory's true
// size before it becomes an address. `held` keeps the memories mapped.
bool HostPlane::exchange_operands(const CollectiveCall& call, CallSync& sync,
                                  std::vector<std::shared_ptr<const MemoryView>>& held) {
  const Extent extent = extent_of(call, context_.size);
  const Touched touches = touched(call);
  Located send = locate(context_.directory, call.send, extent.send_bytes);
  Located recv = locate(context_.directory, call.recv, extent.recv_bytes);
  const Operands mine{send.memory ? send.memory->id : 0, send.offset, recv.memory ? recv.memory->id : 0, recv.offset,
                      call.send == call.recv ? 1U : 0U};
  sync.enter(&mine, sizeof mine);

  const auto address = [&](uint64_t id, uint64_t offset, size_t bytes, int peer) -> std::byte* {
    if (id == 0) return nullptr;
    // Nearly always all ranks use one memory, or one for each operand.
    const MemoryView* memory = send.memory && send.memory->id == id   ? send.memory.get()
                               : recv.memory && recv.memory->id == id ? recv.memory.get()
                                                                      : nullptr;
    if (memory == nullptr) {
      held.push_back(context_.directory->numbered(id));
      memory = held.back().get();
    }
    // Treating it as private memory here would make this rank settle on another algorithm than its peers.
    if (memory == nullptr || offset > memory->bytes || bytes > memory->bytes - offset) {
      fail({Status::mismatch, peer, context_.pids[static_cast<size_t>(peer)],
            format("%s: an operand of rank %d lies in a memory that rank %d has released", name_of(call.collective), peer,
                   context_.rank)});
    }
    return memory->blocks[static_cast<size_t>(peer)] + offset;
  };
  bool possible = true;
  for (int peer = 0; peer < context_.size; ++peer) {
    Operands theirs{};
    std::memcpy(&theirs, sync.await_entry(peer), sizeof theirs);
    const auto index = static_cast<size_t>(peer);
    peer_send_[index] = address(theirs.send_memory, theirs.send_offset, extent.send_bytes, peer);
    peer_recv_[index] = address(theirs.recv_memory, theirs.recv_offset, extent.recv_bytes, peer);
    if (touches.send_of(peer) && peer_send_[index] == nullptr) possible = false;
    if (touches.recv_of(peer) && peer_recv_[index] == nullptr) possible = false;
    if (touches.remote.out_of_place && theirs.in_place != 0) possible = false;
  }
  held.push_back(std::move(send.memory));
  held.push_back(std::move(recv.memory));
  return possible;
}

void HostPlane::collective(const CollectiveCall& call) {
  require_no_stream(call.stream);
  const PlanInput input = plan_input(call);
  if (call.algorithm != Algorithm::automatic) require_possible(input, call);
  const TurnGuard turn(collective_turn_, call.timeout_ms, name_of(call.collective));
  context_.revocation->throw_if_revoked();

  CallSync sync(*this, call);
  for (int peer = 0; peer < context_.size; ++peer)
    scratch_[static_cast<size_t>(peer)] = controls_[static_cast<size_t>(peer)].scratch(sync.op());
  Call view;
  view.collective = call.collective;
  view.dtype = call.dtype;
  view.op = call.op;
  view.root = call.root;
  view.count = call.count;
  view.rank = context_.rank;
  view.size = context_.size;
  view.send = static_cast<const std::byte*>(call.send);
  view.recv = static_cast<std::byte*>(call.recv);
  view.peer_send = peer_send_.data();
  view.peer_recv = peer_recv_.data();
  view.scratch = scratch_.data();
  view.scratch_bytes = input.scratch_bytes;
  view.sync = &sync;
  view.plan = host::plan(input);
  std::vector<std::shared_ptr<const MemoryView>> held;
  if (view.plan.entered) view.plan = settle(input, view.plan, exchange_operands(call, sync, held));
  run(view);
  sync.claim_next(view.count * size_of(view.dtype));
  require_nobody_gave_up(sync.deadline(), name_of(call.collective));
}

PlanReport HostPlane::plan(const CollectiveCall& call) {
  const PlanInput input = plan_input(call);
  if (call.algorithm != Algorithm::automatic) require_possible(input, call);
  Plan chosen = host::plan(input);
  if (chosen.entered) chosen = settle(input, chosen, symmetric_here(call));
  return {chosen.algorithm, chosen.slices, chosen.chunk_bytes, chosen.nontemporal, explain(input, chosen)};
}

}  // namespace symm::host
