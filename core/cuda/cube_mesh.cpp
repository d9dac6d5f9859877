// Finds the roles of ranks in a hybrid cube mesh from the links of their devices.
#include "core/cuda/cube_mesh.hpp"

#include <algorithm>
#include <optional>
#include <span>

#include "core/backend/topology.hpp"
#include "core/base/error.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/nvml.hpp"
#include "kernels/types.hpp"

namespace symm::cuda {
LinkFacts link_facts(const Device& device, int size) {
  if (size != kCubeMeshRanks) return {};

  char bus[32] = {};
  const Driver& driver = device.driver();
  driver.require(
      driver.cuDeviceGetPCIBusId(bus, sizeof bus, device.handle()), "cuDeviceGetPCIBusId");
  try {
    return links_of({bus}).front();
  } catch (const Error& error) {
    if (error.status() != Status::unavailable) throw;
    return {};
  }
}

std::optional<CubeMesh> cube_mesh_of(std::span<const LinkFacts> ranks) {
  for (const LinkFacts& facts : ranks) {
    const auto is_same = [&](const LinkFacts& other) { return other.bus == facts.bus; };
    if (facts.bus == 0 || std::count_if(ranks.begin(), ranks.end(), is_same) > 1) {
      return std::nullopt;
    }
  }
  return find_cube_mesh(links_between(ranks));
}
}  // namespace symm::cuda
