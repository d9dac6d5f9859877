#include "core/cuda/cube_mesh.hpp"

namespace symm::cuda {
LinkFacts link_facts(const Device& device, int size) {
  if (size != kCubeMeshRanks) return {};
  char bus[32] = {};
  device.driver().require(device.driver().cuDeviceGetPCIBusId(bus, sizeof bus, device.handle()), "cuDeviceGetPCIBusId");
  try {
    return links_of({bus}).front();
  } catch (const Error& error) {
    if (error.status() != Status::unavailable) throw;
    return {};  // no NVML, or it does not see the device: then nothing is known, and symm info says why
  }
}

std::optional<CubeMesh> cube_mesh_of(std::span<const LinkFacts> ranks) {
  for (const LinkFacts& facts : ranks) {
    const auto same = [&](const LinkFacts& other) { return other.bus == facts.bus; };
    if (facts.are_known == 0 || std::count_if(ranks.begin(), ranks.end(), same) > 1) return {};
  }
  return find_cube_mesh(links_between(ranks));
}
}  // namespace symm::cuda
