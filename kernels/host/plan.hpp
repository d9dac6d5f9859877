// Which algorithm a collective uses on the host: a
// pure function of values that are equal on all ranks.
#pragma once

#include "kernels/collective_call.hpp"

namespace symm::host {
// Where one algorithm gives way to the next, in bytes that one
// rank hands to the others: equal on all ranks. The values,
// which were measured, are in core/backend/plan_table.txt.
struct Tuning {
  size_t ll_max = 0;
  size_t one_shot_max = 0;
  size_t step_bytes = 0;  // one rank's part of a step of the staged forms; at least a line
};

// What is known of a group.
struct Facts {
  int size = 1;
  size_t scratch_bytes = 0;  // of one half of one rank's scratch
  size_t llc_bytes = 0;      // last-level cache of the machine; 0 if unknown
  Tuning tuning;
};

struct PlanInput : CallSignature, Facts {};

struct AlgorithmForm;  // a row of the table in plan.cpp

struct Plan {
  const AlgorithmForm* form = nullptr;  // null: a copy, or nothing
  Algorithm algorithm = Algorithm::automatic;
  // the executor enters the call (publishing where
  // the operands lie) before the algorithm starts
  bool entered = false;
  // algorithm reads peer_send and writes peer_recv: every rank's operands must be symmetric
  bool zero_copy = false;
  bool nontemporal = false;
  int slices = 1;          // parts into which the work is divided among the ranks
  size_t chunk_bytes = 0;  // bytes of one rank's share that move per step when staged, else 0
  // of a collective in pieces: as chunk_bytes, of each
  // piece, for the ranks whose send cannot be read
  size_t piece_bytes = 0;
};

// The plan before anything is known of the operands. If
// plan.entered is set, all ranks then learn where all operands lie,
// and call settle() with the conjunction; that result is what runs.
Plan plan(const PlanInput& input);

// The operands that the zero-copy form of a collective touches on other ranks, and so
// must be symmetric: on every rank, or on the root only. In pieces each rank's is
// looked at by itself. In an all-to-all in place ranks would overwrite what others
// still read: there zero copy also needs every rank's send and recv to be different.
struct RemoteOperands {
  bool send = false;
  bool recv = false;
  bool root_only = false;     // broadcast's send, and reduce's recv: only the root's counts
  bool out_of_place = false;  // every rank's recv must differ from its send
};
RemoteOperands remote_operands(Collective collective) noexcept;

// The least scratch (one half of one rank) with which every
// collective works. More is faster, up to about 1 MB.
size_t minimum_scratch(int size) noexcept;

// Final plan of an entered call. `all_symmetric`: every operand that the algorithm
// would touch remotely is symmetric memory on every rank. Throws nothing; a forced
// zero-copy algorithm on private memory is refused by refuse() on each rank beforehand.
Plan settle(const PlanInput& input, const Plan& first, bool all_symmetric);

// Why `input` cannot use input.algorithm with
// operands that are (not) symmetric, or "" if it can.
std::string refuse(const PlanInput& input, bool symmetric);

// One sentence for people: why this plan.
std::string explain(const PlanInput& input, const Plan& chosen);
}  // namespace symm::host
