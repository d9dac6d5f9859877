// SPDX-License-Identifier: Apache-2.0
//
// One collective call: plan, order, arguments, launch. Nothing here waits for a rank or allocates device memory.
#include "core/cuda/detail.hpp"
#include "core/cuda/transport.hpp"

namespace symm::cuda {
namespace {

uint64_t bytes_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// Do results of other ranks come straight into this rank's recv, if it is memory of the group?
bool is_delivered_to(const CollectiveCall& call, int rank) {
  switch (call.collective) {
    case Collective::allreduce:
    case Collective::allgather: return true;
    case Collective::broadcast: return rank != call.root;
    case Collective::reduce: return rank == call.root;
    case Collective::reduce_scatter:
    case Collective::alltoall: return false;  // they come by way of scratch
  }
  return false;
}

}  // namespace

PlanInput CudaTransport::plan_input(const CollectiveCall& call) const {
  PlanInput input;
  input.collective = call.collective;
  input.dtype = call.dtype;
  input.op = call.op;
  input.count = call.count;
  input.size = context_.size;
  input.forced = call.algorithm;
  input.max_blocks = max_blocks_;
  input.is_cube_mesh = is_cube_mesh_;
  if (is_multimem(call.algorithm)) input.why_no_multimem = why_no_multimem(call);
  return input;
}

void CudaTransport::collective(const CollectiveCall& call) {
  const PlanInput input = plan_input(call);
  if (call.algorithm != Algorithm::automatic) {
    if (const std::string reason = refuse(input, tuning_); !reason.empty())
      throw Error(Status::invalid_argument, "options.algorithm: " + reason);
  }
  const Plan chosen = cuda::plan(input, tuning_);
  const auto stream = static_cast<CUstream>(call.stream);
  const ContextGuard current(*device_);
  const TimedLock turn(turn_, call.timeout_ms, name_of(call.collective));
  context_.revocation->throw_if_revoked();
  const unsigned long long capture = order_.before(stream);
  if (context_.check && context_.size > 1) {
    const Detail detail = detail_of(call);
    CheckArgs args{comm(call.timeout_ms, static_cast<uint32_t>(call.collective)), detail.what, detail.count};
    kernels_.launch(kernels_.find("symm_check"), {1, 32, stream}, args);
  }
  launch_collective(call, input, chosen);
  order_.after(stream, capture);
}

// Names are put together once: that takes longer than all else that is done here for a small message.
CUfunction CudaTransport::kernel_of(const PlanInput& input, Family family) {
  CUfunction& known = collectives_[static_cast<size_t>(family)][static_cast<size_t>(arithmetic_of(input))];
  if (known == nullptr) known = kernels_.find(kernel_name(input, family));
  return known;
}

void CudaTransport::launch_collective(const CollectiveCall& call, const PlanInput& input, const Plan& chosen) {
  const uint64_t unit = call.count * size_of(call.dtype);
  if (chosen.family == Family::none) return;
  if (chosen.family == Family::copy) {
    copy(call.recv, call.send, unit, call.stream);
    return;
  }
  CollectiveArgs args{};
  args.comm = comm(call.timeout_ms, static_cast<uint32_t>(call.collective));
  args.send = bytes_of(call.send);
  args.recv = bytes_of(call.recv);
  args.unit = unit;
  args.collective = static_cast<int32_t>(call.collective);
  args.dtype = static_cast<int32_t>(call.dtype);
  args.op = static_cast<int32_t>(call.op);
  args.root = call.root;
  args.tile = chosen.tile;
  args.tiles = chosen.tiles;
  args.quad = cube_mesh_.quad;
  args.partners = cube_mesh_.partners;
  auto blocks = static_cast<unsigned>(chosen.blocks);
  if (chosen.family == Family::pipeline) {
    const Detail detail = detail_of(call);
    args.detail = detail.what;
    args.count = detail.count;
    args.work_groups = chosen.work_groups;
    args.flat = chosen.flat ? 1 : 0;
    if (is_delivered_to(call, context_.rank)) {
      const uint64_t bytes = call.collective == Collective::allgather ? unit * static_cast<uint64_t>(context_.size) : unit;
      size_t offset = 0;
      if (const auto memory = context_.directory->containing(call.recv, bytes, &offset)) {
        args.recv_memory = memory->id;
        args.recv_offset = offset;
      } else {
        args.gathers = 1;
      }
    }
    blocks = static_cast<unsigned>(chosen.work_groups) * (args.gathers != 0 ? 3U : 2U);
  }
  if (is_multimem(chosen.family)) {
    // Again, for the addresses; meanwhile another thread may have let go of the memory.
    const auto find = [&](const char* operand, const void* pointer) {
      MulticastPlace place = multicast_place(operand, pointer, unit);
      if (!place.reason.empty()) throw Error(Status::invalid_argument, place.reason);
      return place;
    };
    const MulticastPlace send = find("send", call.send);
    args.send_multicast = send.address;
    args.send_memory = send.memory;
    args.send_offset = send.offset;
    if (chosen.family == Family::multimem_two_shot) {
      const MulticastPlace recv = find("recv", call.recv);
      args.recv_multicast = recv.address;
      args.recv_memory = recv.memory;
      args.recv_offset = recv.offset;
    }
    const Detail detail = detail_of(call);
    args.detail = detail.what;
    args.count = detail.count;
  }
  kernels_.launch(kernel_of(input, chosen.family),
                  {blocks, static_cast<unsigned>(chosen.threads), static_cast<CUstream>(call.stream)}, args);
}

PlanReport CudaTransport::plan(const CollectiveCall& call) {
  const PlanInput input = plan_input(call);
  if (call.algorithm != Algorithm::automatic) {
    if (const std::string reason = refuse(input, tuning_); !reason.empty())
      throw Error(Status::invalid_argument, "options.algorithm: " + reason);
  }
  const Plan chosen = cuda::plan(input, tuning_);
  PlanReport report;
  report.algorithm = chosen.algorithm;
  const bool sliced =
      chosen.family == Family::two_shot || chosen.family == Family::pipeline || chosen.family == Family::multimem_two_shot;
  report.slices = sliced ? context_.size : 1;
  report.chunk_bytes = chosen.tile;
  report.reason = explain(input, chosen, tuning_);
  return report;
}

}  // namespace symm::cuda
