// Whether the ranks of a group make a hybrid cube mesh, and where each stands in it: a pure function of what every rank tells all
// others when the group is formed, so all come to the same answer.
#pragma once

#include "core/cuda/device.hpp"
#include "core/cuda/nvml.hpp"

namespace symm::cuda {
// Asks NVML if `size` ranks can be one.
LinkFacts link_facts(const Device& device, int size);

// By rank. None unless all know their links, each rank has a device of its own, and those make one.
std::optional<CubeMesh> cube_mesh_of(std::span<const LinkFacts> ranks);
}  // namespace symm::cuda
