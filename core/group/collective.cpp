// A collective of a group: notes it for traces and statistics, checks it, and makes
// it in its turn.
#include "core/group/collective.hpp"

#include <cstddef>
#include <span>

#include "core/backend/backend.hpp"
#include "core/base/page.hpp"
#include "core/group/checks.hpp"
#include "core/group/group.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/types.hpp"

namespace symm {
namespace {
// Gives each call its place. A single call gets none: other ranks may make it without a batch.
void number(std::span<CollectiveCall> calls) {
  if (calls.size() < 2) return;
  for (size_t i = 0; i < calls.size(); ++i) {
    calls[i].batch = {calls.size(), i};
    if (i != 0) calls[i].heaps = 0;
  }
}
}  // namespace

void run_collective(Group& group, const CollectiveCall& call) {
  Trace traced;
  if (Trace::on()) {
    traced.begin(group.page(), collective_name(call.collective), -1, call.unit(),
        static_cast<int>(call.dtype));
  }
  const auto make = [&] {
    check_call(group, call);
    group.in_turn([&] { group.transport().collective(call); });
  };
  group.transport().stats().counted(
      [&] { group.with_refusals_told(collective_name(call.collective), make); });
}

void check_batch(Group& group, std::span<const CollectiveCall> calls) {
  for (size_t i = 0; i < calls.size(); ++i) {
    naming_call(i, [&] {
      check_call(group, calls[i]);
      // The plan throws if the algorithm cannot do the call.
      if (calls[i].algorithm != Algorithm::automatic) group.transport().plan(calls[i]);
    });
  }
  require_independent(group, calls);
}

void run_batch(Group& group, std::span<CollectiveCall> calls) {
  group.require_usable();
  if (calls.empty()) return;
  Trace traced;
  if (Trace::on()) {
    size_t bytes = 0;
    for (const CollectiveCall& call : calls) {
      bytes += call.unit();
    }
    traced.begin(group.page(), "batch", -1, bytes, static_cast<int>(calls[0].dtype));
  }

  const auto make = [&] {
    check_batch(group, calls);
    number(calls);
    group.in_turn([&] { group.transport().batch(calls); });
  };
  group.transport().stats().counted([&] { group.with_refusals_told("batch", make); });
}

PlanReport plan_collective(Group& group, const CollectiveCall& call) {
  check_call(group, call);
  PlanReport report = group.transport().plan(call);
  if (report.advice_reason.empty()) {
    report.advice_reason = "NCCL was not measured: its column is of CUDA groups on one machine";
  }
  return report;
}
}  // namespace symm
