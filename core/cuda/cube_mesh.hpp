// Whether the ranks of a group make a hybrid cube mesh, and where each stands in it: a pure function of what every rank tells all
// others when the group is formed, so all come to the same answer.
#pragma once

#include "core/cuda/device.hpp"
#include "core/cuda/nvml.hpp"

namespace symm::cuda {
// What a rank knows of its device's links. Travels, so plain data.
struct LinkFacts {
  using Bus = std::array<char, 24>;  // "0000:1b:00.0", ends with 0
  int32_t are_known = 0;             // 0: NVML was not asked, or does not say
  int32_t to_switches = 0;
  int32_t direct = 0;  // how many of `to_gpus` there are
  Bus bus{};
  std::array<Bus, kMaxLinks> to_gpus{};
};

LinkFacts pack_links(const std::string& bus, const NvLinks& links);
// Asks NVML if `size` ranks can be one.
LinkFacts link_facts(const Device& device, int size);

// By rank. None unless all know their links, each rank has a device of its own, and those make one.
std::optional<CubeMesh> cube_mesh_of(std::span<const LinkFacts> ranks);
}  // namespace symm::cuda
