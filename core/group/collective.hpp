// The path of a collective from the C ABI to the group's transport.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "kernels/collective_call.hpp"

namespace symm {
class Group;

void run_collective(Group& group, const CollectiveCall& call);

// Calls `check`, and names the call of a batch in the refusal that it throws.
template <class Check>
void naming_call(size_t index, const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    Failure failure = error.failure();
    if (failure.status == Status::invalid_argument || failure.status == Status::unsupported) {
      failure.message = format("calls[%zu]: ", index) + failure.message;
    }
    throw Error(std::move(failure));
  }
}

// Makes calls that are independent of each other, all on one stream and with one time-out.
// Throws before any call begins if one is refused, or if memory that one writes overlaps an
// operand of another. There are at most BatchPlace::kMostCalls calls.
void run_batch(Group& group, std::span<CollectiveCall> calls);
// The checks of run_batch(), by themselves.
void check_batch(Group& group, std::span<const CollectiveCall> calls);
PlanReport plan_collective(Group& group, const CollectiveCall& call);
}  // namespace symm
