// The most bytes that each kernel of the plan carries, per rank.
#pragma once

#include <cstdint>

#include "kernels/cuda/plan.hpp"
#include "kernels/cuda/tuning.hpp"

namespace symm::cuda {
uint64_t ll_max_bytes(const PlanInput& input, const Tuning& tuning);
uint64_t ll_move_max_bytes(const PlanInput& input, const Tuning& tuning);
uint64_t one_shot_max_bytes(const PlanInput& input, const Tuning& tuning);
uint64_t one_shot_ahead_max_bytes(const PlanInput& input, const Tuning& tuning);
uint64_t rmsnorm_max_bytes(const PlanInput& input, const Tuning& tuning);
uint64_t two_shot_max_bytes(const PlanInput& input, const Tuning& tuning);
uint64_t reduce_max_bytes(const PlanInput& input, const Tuning& tuning);
uint64_t marked_max_bytes(const PlanInput& input, const Tuning& tuning);
uint64_t relay_max_bytes(const PlanInput& input, const Tuning& tuning);
uint64_t engine_max_bytes(const PlanInput& input, const Tuning& tuning);

// ---- bytes that one launch takes, where a message may go in several

uint64_t ahead_part(const PlanInput& input, const Tuning& tuning);
uint64_t relay_part(const PlanInput& input, const Tuning& tuning);

// Whether `blocks` are at most half of the blocks that fill the links by their threads.
bool are_few(int blocks, const Tuning& tuning);
}  // namespace symm::cuda
