// Makes one collective call: chooses the kernel, orders the stream behind the group's former
// call, and launches.
#include "core/cuda/collectives.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/stats.hpp"
#include "core/base/error.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/cuda/collective_args.hpp"
#include "core/cuda/composed_calls.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/device_group.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/kernels.hpp"
#include "core/cuda/signal_kernels.hpp"
#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/plan.hpp"
#include "kernels/scaled_call.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
// ---- the plan

PlanInput Collectives::input_of(const CollectiveCall& call) const {
  PlanInput input{call, group_.facts, {}};
  if (is_multimem(call.algorithm)) {
    input.why_not = group_.multicast.why_no_multimem(call);
  } else if (may_go_by_engine(input, group_.tuning)) {
    input.why_not = engine_.why_not(call);
  }
  return input;
}

Plan Collectives::possible_plan(const PlanInput& input) const {
  if (const std::string reason = refuse(input, group_.tuning); !reason.empty()) {
    throw Error(Status::invalid_argument, "options.algorithm: " + reason);
  }
  return cuda::plan(input, group_.tuning);
}

namespace {
// Whether an all-gather in chunks is to be made of copies alone.
bool is_made_of_copies(const CollectiveCall& call) {
  return call.collective == Collective::allgather && call.algorithm == Algorithm::copy_engine;
}
}  // namespace

// The call that a plan is made for: the call itself, or the first plain one that it is made of.
// RMSNorm is done in the kernel of the all-reduce where that is faster, unless another algorithm
// is asked for.
CollectiveCall Collectives::planned_call(const CollectiveCall& call) const {
  if (call.words) return is_made_of_copies(call) ? call : plain_call_in_chunks(group_, call);
  if (call.has_wire()) return wire_call(group_, call).plain_call();
  if (call.scaling) return scaled_call(group_, call).plain_call();
  if (call.collective != Collective::allreduce_rmsnorm) return call;

  if (call.algorithm == Algorithm::automatic || call.algorithm == Algorithm::one_shot) {
    PlanInput input = input_of(call);
    input.algorithm = Algorithm::automatic;
    if (call.count == 0 || cuda::plan(input, group_.tuning).form != nullptr) return call;
  }
  return rows_of_norm(group_, call).plain_call();
}

PlanReport Collectives::plan(const CollectiveCall& call) const {
  const PlanInput input = input_of(planned_call(call));
  const Plan chosen = possible_plan(input);
  std::string parts;
  if (call.scaling) parts = scaled_call(group_, call).why();
  if (call.has_wire()) parts = wire_call(group_, call).why();
  if (call.words) parts = why_in_chunks(group_, call);

  PlanReport report;
  report.algorithm = algorithm_of(call, chosen);
  report.slices = chosen.slices;
  report.chunk_bytes = chosen.tile;
  report.reason = parts + explain(input, chosen, group_.tuning);
  return report;
}

// The algorithm of a call: not that of the plain calls that carry its codes.
Algorithm Collectives::algorithm_of(const CollectiveCall& call, const Plan& chosen) const {
  return call.has_wire() ? wire_call(group_, call).algorithm() : chosen.algorithm;
}

// ---- the order

void Collectives::issue(const CollectiveCall& call) {
  const PlanInput input = input_of(planned_call(call));
  const Plan chosen = possible_plan(input);
  const CUstream stream = stream_of(call.stream);

  const ContextGuard current(*group_.device);
  const TimedLock turn(group_.order.turn(), call.timeout_ms, collective_name(call.collective));
  group_.context.revocation->throw_if_revoked();
  const StreamOrder::CallStream ordered = group_.order.before(stream);
  issue_next(call, input, chosen, ordered.capture != 0);
  group_.order.after(ordered);
}

// All plans are made before anything is issued: a call that is impossible is refused then. If a
// launch fails, later calls still come behind those that were issued.
void Collectives::issue(std::span<const CollectiveCall> calls) {
  if (calls.empty()) return;
  struct Planned {
    PlanInput input;
    Plan chosen;
  };
  std::vector<Planned> planned;
  planned.reserve(calls.size());
  for (const CollectiveCall& call : calls) {
    const PlanInput input = input_of(planned_call(call));
    planned.push_back({input, possible_plan(input)});
  }

  const ContextGuard current(*group_.device);
  const TimedLock turn(group_.order.turn(), calls[0].timeout_ms, "batch");
  group_.context.revocation->throw_if_revoked();
  const StreamOrder::CallStream ordered = group_.order.before(stream_of(calls[0].stream));
  try {
    for (size_t i = 0; i < calls.size(); ++i) {
      issue_next(calls[i], planned[i].input, planned[i].chosen, ordered.capture != 0);
    }
  } catch (...) {
    group_.order.after(ordered);
    throw;
  }
  group_.order.after(ordered);
}

void Collectives::issue_next(
    const CollectiveCall& call, const PlanInput& input, const Plan& chosen, bool is_captured) {
  const Algorithm algorithm = algorithm_of(call, chosen);
  stats_.begin(GroupStats::call_shown(call.collective, call.bytes(), algorithm));
  group_.issued.note(call, is_captured);
  const bool is_composed =
      call.scaling || call.has_wire() || call.words || input.collective != call.collective;
  if (call.words && is_made_of_copies(call) && chosen.form != nullptr) {
    engine_.issue_in_chunks(call);
  } else if (is_composed) {
    issue_composed(group_, call, [this](const CollectiveCall& plain) { issue_plain(plain); });
  } else {
    issue_planned(call, input, chosen);
  }
  stats_.add_collective(call, algorithm, true);
}

void Collectives::issue_plain(const CollectiveCall& call) {
  const PlanInput input = input_of(call);
  issue_planned(call, input, possible_plan(input));
}

void Collectives::issue_planned(
    const CollectiveCall& call, const PlanInput& input, const Plan& chosen) {
  if (chosen.form != nullptr && chosen.algorithm == Algorithm::copy_engine) {
    issue_by_engine(call);
    return;
  }
  if (group_.context.check && group_.context.size > 1) launch_check(group_, call);
  launch(call, input, chosen);
}

// An all-reduce is a reduce-scatter by kernels and an all-gather by engines.
void Collectives::issue_by_engine(const CollectiveCall& call) {
  if (call.collective != Collective::allreduce) {
    engine_.issue(call);
    return;
  }

  CollectiveCall part = call;
  part.collective = Collective::reduce_scatter;
  part.algorithm = Algorithm::automatic;
  part.count = call.count / static_cast<size_t>(group_.context.size);
  part.recv =
      static_cast<std::byte*>(call.recv) + static_cast<size_t>(group_.context.rank) * part.unit();
  issue_plain(part);

  part.collective = Collective::allgather;
  part.send = part.recv;
  part.recv = call.recv;
  engine_.issue(part);
}

// ---- the launch

void Collectives::launch(const CollectiveCall& call, const PlanInput& input, const Plan& chosen) {
  if (chosen.in_pieces) {
    group_.in_room([&]<int kRanks>() { launch_pieces<kRanks>(call, input, chosen); });
    return;
  }
  if (call.pieces != nullptr) return;

  if (call.collective == Collective::allreduce_rmsnorm) {
    if (chosen.form != nullptr) {
      launch_rmsnorm(group_, kernel_of(input, chosen),
          {chosen.cluster, chosen.blocks, chosen.threads}, call, *call.norm);
    }
    return;
  }

  if (chosen.form == nullptr) {
    issue_on_one_rank(call);
  } else {
    group_.in_room([&]<int kRanks>() { launch_plain<kRanks>(call, input, chosen); });
  }
}

// A copy; but the results of a reduction of bools are 0 or 1, and an exscan combines nothing.
void Collectives::issue_on_one_rank(const CollectiveCall& call) {
  if (call.collective == Collective::exscan) {
    group_.fill_neutral(call, call.recv, call.unit());
    return;
  }
  if (traits(call.collective).has_op && call.dtype == DType::boolean) {
    Conversion conversion;
    conversion.from = static_cast<const std::byte*>(call.send);
    conversion.to = static_cast<std::byte*>(call.recv);
    conversion.from_dtype = call.dtype;
    conversion.to_dtype = call.dtype;
    conversion.count = call.count;
    launch_conversion(group_, call, conversion);
    return;
  }
  group_.copy(call.recv, call.send, call.unit(), call.stream);
}

template <int kRanks>
void Collectives::launch_plain(
    const CollectiveCall& call, const PlanInput& input, const Plan& chosen) {
  CollectiveArgsOf<kRanks> args = collective_args<kRanks>(group_, call);
  args.tile = chosen.tile;
  args.tiles = chosen.tiles;
  if (chosen.algorithm == Algorithm::two_shot_staged) {
    add_pipeline_args(group_, call, chosen, args);
  }
  if constexpr (kRanks == kSmallRanks) {
    if (is_multimem(chosen.algorithm)) add_multimem_args(group_, call, chosen, args);
  }
  args.quad = group_.cube_mesh.quad;
  args.partners = group_.cube_mesh.partners;

  const Kernels::Launch launch{static_cast<unsigned>(chosen.blocks),
      static_cast<unsigned>(chosen.threads), static_cast<CUstream>(call.stream), 1,
      args.movers != 0 ? kBulkShared : 0};
  uint64_t left = call.unit();
  while (left > 0) {
    args.unit = std::min(left, chosen.part);
    group_.kernels.launch(kernel_of(input, chosen), launch, args);
    left -= args.unit;
    args.send += args.unit;
    args.recv += args.unit;
  }
}

template <int kRanks>
void Collectives::launch_pieces(
    const CollectiveCall& call, const PlanInput& input, const Plan& chosen) {
  PiecesArgsOf<kRanks> args = pieces_args<kRanks>(group_, call);
  args.call.work_groups = chosen.work_groups;
  add_recv_of_pieces(group_, call, args.call);

  const Kernels::Launch launch{static_cast<unsigned>(chosen.blocks),
      static_cast<unsigned>(chosen.threads), static_cast<CUstream>(call.stream)};
  group_.kernels.launch(kernel_of(input, chosen), launch, args);
}

// Names are put together once: that takes longer than everything else that is done here for a
// small message.
CUfunction Collectives::kernel_of(const PlanInput& input, const Plan& chosen) {
  CUfunction& known = kernels_[row_of(chosen)][static_cast<size_t>(arithmetic_of(input))];
  if (known == nullptr) known = group_.kernels.find(kernel_name(input, chosen));
  return known;
}
}  // namespace symm::cuda
