// SPDX-License-Identifier: Apache-2.0
//
// The host transport's collectives: the plan, and the call of the algorithm.
#include "core/host/transport.hpp"

namespace symm::host {

void HostTransport::require_possible(const PlanInput& input, const CollectiveCall& call) const {
  if (const std::string reason = refuse(input, operands_.symmetric_here(call)); !reason.empty()) {
    throw Error(Status::invalid_argument, "options.algorithm: " + reason);
  }
}

const PreparedCall& HostTransport::prepare(const CollectiveCall& call) {
  const CallSignature& known = prepared_.input;
  if (known == call) return prepared_;
  const PlanInput input{call, facts_};
  prepared_ = {input, host::plan(input), call.hash()};
  return prepared_;
}

void HostTransport::collective(const CollectiveCall& call) {
  require_no_stream(call.stream);
  if (call.algorithm != Algorithm::automatic) require_possible({call, facts_}, call);
  const TimedLock turn(collective_mutex_, call.timeout_ms, name_of(call.collective));
  context_.revocation->throw_if_revoked();

  const PreparedCall& prepared = prepare(call);
  CallSync sync(controls_, calls_, prepared, call.timeout_ms);
  for (int peer = 0; peer < context_.size; ++peer) scratch_[static_cast<size_t>(peer)] = controls_[peer].scratch(sync.op());
  const OperandExchange::Hold hold(operands_);
  Plan settled;
  if (prepared.plan.entered) {
    const int unknown = operands_.exchange(call, sync);
    if (unknown >= 0) {
      controls_.fail({Status::mismatch, unknown, context_.pids[static_cast<size_t>(unknown)],
                      format("%s: an operand of rank %d lies in a memory that rank %d has released", name_of(call.collective),
                             unknown, context_.rank)});
    }
    settled = settle(prepared.input, prepared.plan, operands_.all_symmetric());
  }
  run({call, prepared.plan.entered ? settled : prepared.plan, context_.rank, context_.size, operands_.peer_send(),
       operands_.peer_recv(), scratch_.data(), sync});
  sync.prefetch_next_for_write(call.unit());
  controls_.require_nobody_gave_up(sync.deadline(), name_of(call.collective));
}

PlanReport HostTransport::plan(const CollectiveCall& call) {
  const PlanInput input{call, facts_};
  if (call.algorithm != Algorithm::automatic) require_possible(input, call);
  Plan chosen = host::plan(input);
  if (chosen.entered) chosen = settle(input, chosen, operands_.symmetric_here(call));
  return {chosen.algorithm, chosen.slices, chosen.chunk_bytes, chosen.nontemporal, explain(input, chosen)};
}

}  // namespace symm::host
