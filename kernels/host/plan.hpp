// The choice of a collective's algorithm on the host. The plan is a pure function of values
// that are equal on all ranks.
#pragma once

#include <cstddef>
#include <string>

#include "kernels/collective_call.hpp"
#include "kernels/types.hpp"

namespace symm::host {
// The sizes at which one algorithm gives way to the next, in bytes that one rank hands to the
// others. Equal on all ranks. The values were measured, and are in core/backend/plan_table.txt.
struct Tuning {
  size_t ll_max = 0;
  size_t one_shot_max = 0;
  size_t step_bytes = 0;  // bytes of one rank in a step of a staged form; at least a line
};

// The facts of a group that plans depend on.
struct Facts {
  int size = 1;
  size_t scratch_bytes = 0;  // in one half of one rank's scratch
  size_t llc_bytes = 0;      // last-level cache of the machine; 0 if unknown
  Tuning tuning;
};

struct PlanInput : CallSignature, Facts {};

struct AlgorithmForm;  // a row of the table in plan.cpp

struct Plan {
  const AlgorithmForm* form = nullptr;  // null: a copy, or nothing
  Algorithm algorithm = Algorithm::automatic;
  // The executor enters the call before the algorithm starts, and publishes where the operands lie.
  bool entered = false;
  // The algorithm reads peer_send and writes peer_recv: every rank's operands must be symmetric.
  bool zero_copy = false;
  bool nontemporal = false;
  int slices = 1;          // parts into which the work is divided among the ranks
  size_t chunk_bytes = 0;  // bytes of one rank's share that move per step when staged, else 0
  // In a collective in pieces: bytes of each piece that move per step, if the send of some rank
  // cannot be read.
  size_t piece_bytes = 0;
};

// The plan before anything is known of the operands. If plan.entered is set, all ranks then learn
// where all operands lie, and what runs is the result of settle().
Plan plan(const PlanInput& input);

// The operands that the zero-copy form of a collective touches on other ranks. They must be
// symmetric on every rank, or on the root only; in pieces each rank's operands are looked at by
// themselves. In an all-to-all in place ranks would overwrite what others still read, so zero copy
// needs every rank's send and recv to be different.
struct RemoteOperands {
  bool send = false;
  bool recv = false;
  bool root_only = false;     // only the root's operand counts: broadcast's send, reduce's recv
  bool out_of_place = false;  // every rank's recv must differ from its send
};
RemoteOperands remote_operands(Collective collective) noexcept;

// The least bytes of scratch, in one half of one rank's, with which every collective works.
// More is faster, up to about 1 MB.
size_t minimum_scratch(int size) noexcept;

// The final plan of a call that was entered. `all_symmetric`: every operand that the algorithm
// would touch on other ranks is symmetric memory on every rank. Throws nothing: each rank has
// refused a forced zero-copy algorithm on private memory before, by refuse().
Plan settle(const PlanInput& input, const Plan& first, bool all_symmetric);

// The reason why `input` cannot use input.algorithm, if its operands are symmetric or not; ""
// if it can. Calls that are wrong whatever the plan are refused by core/group/checks.cpp.
std::string refuse(const PlanInput& input, bool symmetric);

// One sentence for people: why the plan is this one.
std::string explain(const PlanInput& input, const Plan& chosen);
}  // namespace symm::host
