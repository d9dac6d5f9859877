// SPDX-License-Identifier: Apache-2.0
//
// The host transport's collectives: the plan, and the call of the algorithm.
#include "core/host/agreement.hpp"
#include "core/host/call_sync.hpp"
#include "core/host/transport.hpp"

namespace symm::host {

PlanInput HostTransport::plan_input(const CollectiveCall& call) const {
  PlanInput input;
  input.collective = call.collective;
  input.dtype = call.dtype;
  input.op = call.op;
  input.count = call.count;
  input.size = context_.size;
  input.forced = call.algorithm;
  input.scratch_bytes = scratch_bytes_;
  input.llc_bytes = llc_bytes_;
  input.tuning = tuning_;
  return input;
}

void HostTransport::require_possible(const PlanInput& input, const CollectiveCall& call) const {
  if (const std::string reason = refuse(input, operands_.symmetric_here(call)); !reason.empty()) {
    throw Error(Status::invalid_argument, "options.algorithm: " + reason);
  }
}

const PreparedCall& HostTransport::prepare(const CollectiveCall& call) {
  if (prepared_.is_for(call)) return prepared_;
  prepared_.root = -1;  // until all of it is there
  prepared_.input = plan_input(call);
  prepared_.plan = host::plan(prepared_.input);
  prepared_.detail = detail_of(call);
  prepared_.signature = signature_of(prepared_.detail);
  prepared_.root = call.root;
  return prepared_;
}

void HostTransport::collective(const CollectiveCall& call) {
  require_no_stream(call.stream);
  if (call.algorithm != Algorithm::automatic) require_possible(plan_input(call), call);
  const TimedLock turn(collective_mutex_, call.timeout_ms, name_of(call.collective));
  context_.revocation->throw_if_revoked();

  const PreparedCall& prepared = prepare(call);
  CallSync sync(*this, prepared, call.timeout_ms);
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
  view.peer_send = operands_.peer_send();
  view.peer_recv = operands_.peer_recv();
  view.scratch = scratch_.data();
  view.scratch_bytes = scratch_bytes_;
  view.sync = &sync;
  view.plan = prepared.plan;
  const OperandExchange::Hold hold(operands_);
  if (view.plan.entered) {
    const int unknown = operands_.exchange(call, sync);
    if (unknown >= 0) {
      fail({Status::mismatch, unknown, context_.pids[static_cast<size_t>(unknown)],
            format("%s: an operand of rank %d lies in a memory that rank %d has released", name_of(call.collective), unknown,
                   context_.rank)});
    }
    view.plan = settle(prepared.input, view.plan, operands_.all_symmetric());
  }
  run(view);
  sync.prefetch_next_for_write(view.count * size_of(view.dtype));
  require_nobody_gave_up(sync.deadline(), name_of(call.collective));
}

PlanReport HostTransport::plan(const CollectiveCall& call) {
  const PlanInput input = plan_input(call);
  if (call.algorithm != Algorithm::automatic) require_possible(input, call);
  Plan chosen = host::plan(input);
  if (chosen.entered) chosen = settle(input, chosen, operands_.symmetric_here(call));
  return {chosen.algorithm, chosen.slices, chosen.chunk_bytes, chosen.nontemporal, explain(input, chosen)};
}

}  // namespace symm::host
