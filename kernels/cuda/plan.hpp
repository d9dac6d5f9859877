// The choice of a collective's kernel on GPUs, and the size of its launch: a pure function of
// values that are equal on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/collective_call.hpp"
#include "kernels/cuda/tuning.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
constexpr bool is_multimem(Algorithm algorithm) noexcept {
  return algorithm == Algorithm::multimem_one_shot || algorithm == Algorithm::multimem_two_shot;
}

// The facts of a group on which plans depend.
struct Facts {
  int size = 1;
  // Whether the group uses the kernels of large groups (kSmallRanks).
  bool is_large = false;
  // Blocks of 512 threads that surely fit onto the device beside those of other groups.
  int max_blocks = 0;
  // Several ranks of the group have the same device. Then many kernels wait on it at a time, and
  // each of their blocks counts as a whole multiprocessor (occupancy.hpp).
  bool shares_device = false;
  // Blocks can work in clusters, as all ranks know.
  bool has_clusters = false;
  // All ranks promise that recvs which are symmetric memory lie at the same offset.
  bool same_offsets = false;
  // The ranks' devices make a hybrid cube mesh, as all ranks know.
  bool is_cube_mesh = false;
};

struct PlanInput : CallSignature, Facts {
  // Some algorithms demand where operands lie. Why the operands of this call do not lie so, or
  // "" if they do, or if the algorithm demands nothing.
  std::string why_not;
};

// The input of a call that has a block_limit: that of a device with this number of
// multiprocessors, of which each block takes a whole one, since a device spreads
// blocks over as many as it has.
PlanInput within_block_limit(const PlanInput& input);

// Whether `why_not` has to be found out for copy engines.
bool may_go_by_engine(const PlanInput& input, const Tuning& tuning);

// The arithmetic that a kernel is compiled for; every other choice is made inside.
enum class Arithmetic { none, any, bf16, f16, f32 };
inline constexpr size_t kArithmetics = static_cast<size_t>(Arithmetic::f32) + 1;
Arithmetic arithmetic_of(const CallSignature& call);

// A row of the table in plan_forms.cpp.
struct KernelForm;

struct Plan {
  // Null: nothing to launch, except a copy where there is one rank.
  const KernelForm* form = nullptr;
  Algorithm algorithm = Algorithm::automatic;
  // Parts into which the work is divided among the ranks.
  int slices = 1;
  int blocks = 0;
  int threads = 0;
  // Blocks that work together.
  int cluster = 1;
  // Blocks of pieces.cu that wait for those of other ranks.
  int work_groups = 0;
  // Blocks of pipeline_move.cu that copy in bulk, where the device can.
  int movers = 0;
  // A kernel of pieces.cu does it.
  bool in_pieces = false;
  // The root of a broadcast sends everything to all ranks itself.
  bool direct = false;
  // The root owns none of the slices.
  bool spares_root = false;
  // CollectiveArgs::tile and CollectiveArgs::tiles.
  uint64_t tile = 0;
  uint64_t tiles = 0;
  // Bytes of `unit` that one launch takes; the rest goes in further launches.
  uint64_t part = UINT64_MAX;
};

Plan plan(const PlanInput& input, const Tuning& tuning);

// Why input.algorithm cannot be used, or "".
std::string refuse(const PlanInput& input, const Tuning& tuning);

std::string explain(const PlanInput& input, const Plan& chosen, const Tuning& tuning);

// The kernel of a plan that has a form: "symm_one_shot_bf16_8".
std::string kernel_name(const PlanInput& input, const Plan& chosen);

// The number of a plan's form in the table; an algorithm may have several forms.
inline constexpr size_t kKernelForms = 19;
size_t row_of(const Plan& chosen);

// All kernels that a group may launch, whose size and `is_large` are read: those that need
// multicast, or the others.
std::vector<std::string> kernel_names(const Facts& group, bool multicast);
}  // namespace symm::cuda
