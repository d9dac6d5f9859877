// A collective of a group: note it for traces and statistics, check it, and make it in its
// turn.
#include "core/group/collective.hpp"

#include "core/backend/backend.hpp"
#include "core/base/page.hpp"
#include "core/group/checks.hpp"
#include "core/group/group.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/types.hpp"

namespace symm {
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

PlanReport plan_collective(Group& group, const CollectiveCall& call) {
  check_call(group, call);
  return group.transport().plan(call);
}
}  // namespace symm
