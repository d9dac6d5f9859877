// The table of the plan: one row for each way to do a collective. A new way is a row here, its
// functions in plan_capabilities, plan_limits and plan_shapes, and a .cu file.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/cuda/plan.hpp"
#include "kernels/cuda/tuning.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
struct KernelForm {
  struct Kernel {
    // "one_shot" for the kernels symm_one_shot_<arithmetic>_<ranks>; null: no kernel.
    const char* name = nullptr;
    // Compiled for each arithmetic, and for each number of ranks.
    bool per_arithmetic = false;
    bool per_ranks = false;
    // Launched only in groups that have multicast.
    bool multicast = false;
  };

  Algorithm algorithm;
  Kernel kernel;
  // plan_capabilities.hpp says what this function returns.
  bool (*does)(const PlanInput& input, std::string* why);
  // Bytes that it carries; null: any number.
  uint64_t (*most)(const PlanInput& input, const Tuning& tuning);
  // Null: chosen only where it is forced.
  bool (*preferred)(const PlanInput& input);
  void (*shape)(Plan& plan, const PlanInput& input, const Tuning& tuning);
  // For people: what happens to as many bytes as it carries; or null, and then `why` words all.
  const char* up_to;
  std::string (*why)(const PlanInput& input, const Plan& chosen) = nullptr;

  uint64_t max_bytes(const PlanInput& input, const Tuning& tuning) const {
    return most == nullptr ? UINT64_MAX : most(input, tuning);
  }
};

// All forms, in the order in which they are tried.
std::span<const KernelForm> kernel_forms();

// " (8 blocks of 512)", as reasons end.
std::string launch_text(const Plan& chosen);
}  // namespace symm::cuda
