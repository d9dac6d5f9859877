// The capabilities of each kernel of the plan. A function returns false if its kernel cannot do
// a call, and writes the reason to `why`, unless that is null. A refusal without a reason never
// reaches people, because another kernel of the same algorithm does the call.
#pragma once

#include <string>

#include "kernels/cuda/plan.hpp"

namespace symm::cuda {
// ---- kernels that do every collective of their kind

bool reduces(const PlanInput& input, std::string* why);
bool scans(const PlanInput& input, std::string* why);
bool moves(const PlanInput& input, std::string* why);
bool reduces_pieces(const PlanInput& input, std::string* why);
bool moves_pieces(const PlanInput& input, std::string* why);

// ---- kernels that do some

// All-gather, all-to-all and broadcast.
bool moves_blocks(const PlanInput& input, std::string* why);

// A broadcast that the root sends to the others in parts, for them to pass on.
bool passes_on(const PlanInput& input, std::string* why);

// RMSNorm within the all-reduce.
bool normalises(const PlanInput& input, std::string* why);

// Operands that are their own flags (push.cuh), in one hop.
bool pushes_once(const PlanInput& input, std::string* why);

// One hop between two ranks, each of which sends a pack ahead of the one that it combines.
bool pushes_ahead(const PlanInput& input, std::string* why);

// Two hops, by way of the slices' owners.
bool pushes_allreduce_twice(const PlanInput& input, std::string* why);
bool pushes_reduce_twice(const PlanInput& input, std::string* why);

// The switch adds.
bool sums_by_multimem(const PlanInput& input, std::string* why);

// Along the links of a hybrid cube mesh.
bool reduces_on_mesh(const PlanInput& input, std::string* why);

// Copy engines move results into every recv. An all-reduce is a reduce-scatter, whose results
// they move.
bool goes_by_engine(const PlanInput& input, std::string* why);

// ---- where a kernel is preferred to what comes after it in the table

bool always(const PlanInput& input);
bool prefers_ahead(const PlanInput& input);
bool not_pushed(const PlanInput& input);
bool can_use_copy_engine(const PlanInput& input);
bool is_on_mesh(const PlanInput& input);

// Would copy engines be preferred, if the operands lie as they have to?
bool suits_copy_engine(const PlanInput& input);
}  // namespace symm::cuda
