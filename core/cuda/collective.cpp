// SPDX-License-Identifier: Apache-2.0
//
// One collective call: plan, order, arguments, launch. Nothing here waits for a rank or allocates device memory.
#include "core/cuda/transport.hpp"

namespace symm::cuda {
PlanInput CudaTransport::plan_input(const CollectiveCall& call) const {
  return {call, facts_, is_multimem(call.algorithm) ? multicast_.why_no_multimem(call) : std::string()};
}

Plan CudaTransport::possible_plan(const PlanInput& input) const {
  if (const std::string reason = refuse(input, tuning_); !reason.empty())
    throw Error(Status::invalid_argument, "options.algorithm: " + reason);
  return cuda::plan(input, tuning_);
}

void CudaTransport::collective(const CollectiveCall& call) {
  const PlanInput input = plan_input(call);
  const Plan chosen = possible_plan(input);
  const auto stream = static_cast<CUstream>(call.stream);
  const ContextGuard current(*device_);
  const TimedLock turn(turn_, call.timeout_ms, name_of(call.collective));
  context_.revocation->throw_if_revoked();
  const unsigned long long capture = order_.before(stream);
  if (context_.check && context_.size > 1) {
    CheckArgs args{comm(call.timeout_ms, static_cast<uint32_t>(call.collective)), call.packed(), call.count};
    kernels_.launch(kernels_.find("symm_check"), {1, 32, stream}, args);
  }
  launch_collective(call, input, chosen);
  order_.after(stream, capture);
}

// Names are put together once: that takes longer than all else that is done here for a small message.
CUfunction CudaTransport::kernel_of(const PlanInput& input, Algorithm algorithm) {
  CUfunction& known = collectives_[static_cast<size_t>(algorithm)][static_cast<size_t>(arithmetic_of(input))];
  if (known == nullptr) known = kernels_.find(kernel_name(input, algorithm));
  return known;
}

void CudaTransport::launch_collective(const CollectiveCall& call, const PlanInput& input, const Plan& chosen) {
  const uint64_t unit = call.unit();
  if (chosen.form == nullptr) {
    copy(call.recv, call.send, unit, call.stream);
    return;
  }
  CollectiveArgs args{};
  args.comm = comm(call.timeout_ms, static_cast<uint32_t>(call.collective));
  args.send = address_of(call.send);
  args.recv = address_of(call.recv);
  args.unit = unit;
  args.collective = static_cast<int32_t>(call.collective);
  args.dtype = static_cast<int32_t>(call.dtype);
  args.op = static_cast<int32_t>(call.op);
  args.root = call.root;
  args.detail = call.packed();
  args.count = call.count;
  args.tile = chosen.tile;
  args.tiles = chosen.tiles;
  args.quad = cube_mesh_.quad;
  args.partners = cube_mesh_.partners;
  auto blocks = static_cast<unsigned>(chosen.blocks);
  if (chosen.algorithm == Algorithm::two_shot_staged) {
    args.work_groups = chosen.work_groups;
    args.direct = chosen.direct ? 1 : 0;
    if (is_delivered_to(call.collective, context_.rank, call.root)) {
      const uint64_t bytes = operand_bytes(call.collective, unit, context_.size).recv;
      size_t offset = 0;
      if (const auto memory = context_.directory->containing(call.recv, bytes, &offset)) {
        args.recv_memory = memory->id;
        args.recv_offset = offset;
      } else {
        args.copies_out = 1;
      }
    }
    blocks = static_cast<unsigned>(chosen.work_groups) * (args.copies_out != 0 ? 3U : 2U);
  }
  if (is_multimem(chosen.algorithm)) {
    // Again, for the addresses; meanwhile another thread may have let go of the memory.
    const auto find = [&](const char* operand, const void* pointer) {
      MulticastMemories::Place place = multicast_.place(operand, pointer, unit);
      if (!place.reason.empty()) throw Error(Status::invalid_argument, place.reason);
      return place;
    };
    const MulticastMemories::Place send = find("send", call.send);
    args.send_multicast = send.address;
    args.send_memory = send.memory;
    args.send_offset = send.offset;
    if (chosen.algorithm == Algorithm::multimem_two_shot) {
      const MulticastMemories::Place recv = find("recv", call.recv);
      args.recv_multicast = recv.address;
      args.recv_memory = recv.memory;
      args.recv_offset = recv.offset;
    }
  }
  kernels_.launch(kernel_of(input, chosen.algorithm),
                  {blocks, static_cast<unsigned>(chosen.threads), static_cast<CUstream>(call.stream)}, args);
}

PlanReport CudaTransport::plan(const CollectiveCall& call) {
  const PlanInput input = plan_input(call);
  const Plan chosen = possible_plan(input);
  return {chosen.algorithm, chosen.slices, chosen.tile, false, explain(input, chosen, tuning_)};
}

}  // namespace symm::cuda
