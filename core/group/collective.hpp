// The collectives' common front: arguments are checked here, once for all back ends,
// and then handed to the group's transport.
#pragma once

#include "core/group/group.hpp"

namespace symm {
Error unknown_dtype(int value);  // 0 is a type of no version

// Elements that the operands have room for.
struct Capacities {
  size_t send, recv;
};

// Of a collective in pieces, beside the call: elements for each rank, as in symm.h.
struct PieceCounts {
  const size_t* send_counts = nullptr;
  const size_t* send_displacements = nullptr;
  const size_t* recv_counts = nullptr;
  const size_t* recv_displacements = nullptr;
  size_t rows = 0;
  size_t recv_stride = 0;
  // the numbers are read when the call runs, from memory that the device can read
  std::optional<Capacities> capacities = {};
};

void run_collective(Group& group, const CollectiveCall& call, const PieceCounts& counts = {});
PlanReport plan_collective(
    Group& group, const CollectiveCall& call, const PieceCounts& counts = {});
}  // namespace symm
