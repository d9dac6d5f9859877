// The size of a launch of each kernel of the plan, and its division of the work.
#pragma once

#include <cstdint>

#include "kernels/cuda/plan.hpp"
#include "kernels/cuda/tuning.hpp"

namespace symm::cuda {
void shape_ll(Plan& plan, const PlanInput& input, const Tuning& tuning);
void shape_one_shot(Plan& plan, const PlanInput& input, const Tuning& tuning);
void shape_one_shot_ahead(Plan& plan, const PlanInput& input, const Tuning& tuning);
void shape_rmsnorm(Plan& plan, const PlanInput& input, const Tuning& tuning);
void shape_two_shot(Plan& plan, const PlanInput& input, const Tuning& tuning);
void shape_two_shot_reduce(Plan& plan, const PlanInput& input, const Tuning& tuning);
void shape_marked(Plan& plan, const PlanInput& input, const Tuning& tuning);
void shape_relay(Plan& plan, const PlanInput& input, const Tuning& tuning);
void shape_pipeline(Plan& plan, const PlanInput& input, const Tuning& tuning);
void shape_pieces(Plan& plan, const PlanInput& input, const Tuning& tuning);
void shape_copy_engine(Plan& plan, const PlanInput& input, const Tuning& tuning);
void shape_multimem(Plan& plan, const PlanInput& input, const Tuning& tuning);

// Threads of a kernel: of its largest block, and of all blocks that run at a time.
struct ThreadRoom {
  int block;
  int all;
};

// The way in which rows are normalised: each by a cluster of blocks, or by one block if
// `cluster` is 1. With 0 blocks they cannot be normalised.
struct RowShape {
  int cluster = 1;
  int blocks = 0;
  int threads = 0;
};

// At most `most` blocks, in clusters where `has_clusters`.
RowShape row_shape(uint64_t hidden, uint64_t rows, ThreadRoom room, bool has_clusters, int most);

// The shape of an all-reduce with RMSNorm.
RowShape shape_of_rows(const PlanInput& input);
}  // namespace symm::cuda
