// Whether the ranks of a group are on a hybrid cube mesh (core/backend/topology.hpp), and the role
// of each. A pure function of what every rank tells all others when the group is formed, so all
// ranks come to the same answer.
#pragma once

#include <optional>
#include <span>

#include "core/backend/topology.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/nvml.hpp"

namespace symm::cuda {
// The links of a device, if a group of `size` ranks can be on such a mesh; else nothing, as where
// NVML does not tell.
LinkFacts link_facts(const Device& device, int size);

// The roles by rank. None unless all ranks know their links, each has a device of its own, and
// these devices are such a mesh. All ranks are on one machine.
std::optional<CubeMesh> cube_mesh_of(std::span<const LinkFacts> ranks);
}  // namespace symm::cuda
