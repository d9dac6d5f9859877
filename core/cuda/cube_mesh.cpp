#include "core/cuda/cube_mesh.hpp"
#include <cstring>

namespace symm::cuda {
namespace {
LinkFacts::Bus pack(const std::string& bus) {
  LinkFacts::Bus packed{};
  std::memcpy(packed.data(), bus.data(), std::min(bus.size(), packed.size() - 1));
  return packed;
}

// What a peer sent may not end where it should.
std::string text_of_bus(const LinkFacts::Bus& bus) { return {bus.begin(), std::find(bus.begin(), bus.end(), '\0')}; }
}  // namespace

LinkFacts pack_links(const std::string& bus, const NvLinks& links) {
  LinkFacts facts;
  facts.are_known = 1;
  facts.to_switches = links.to_switches;
  facts.bus = pack(bus);
  for (const std::string& gpu : links.to_gpus)
    if (facts.direct < static_cast<int32_t>(facts.to_gpus.size())) facts.to_gpus[static_cast<size_t>(facts.direct++)] = pack(gpu);
  return facts;
}

LinkFacts link_facts(const Device& device, int size) {
  if (size != kCubeMeshRanks) return {};
  char bus[32] = {};
  device.driver().require(device.driver().cuDeviceGetPCIBusId(bus, sizeof bus, device.handle()), "cuDeviceGetPCIBusId");
  try {
    return pack_links(bus, nvlinks_of({bus}).front());
  } catch (const Error& error) {
    if (error.status() != Status::unavailable) throw;
    return {};  // no NVML, or it does not see the device: then nothing is known, and symm info says why
  }
}

std::optional<CubeMesh> cube_mesh_of(std::span<const LinkFacts> ranks) {
  std::vector<std::string> buses;
  std::vector<NvLinks> ends;
  for (const LinkFacts& facts : ranks) {
    if (facts.are_known == 0) return {};
    buses.push_back(text_of_bus(facts.bus));
    if (std::count(buses.begin(), buses.end(), buses.back()) > 1) return {};
    NvLinks links;
    links.to_switches = facts.to_switches;
    for (size_t i = 0; i < facts.to_gpus.size() && static_cast<int32_t>(i) < facts.direct; ++i)
      links.to_gpus.push_back(text_of_bus(facts.to_gpus[i]));
    ends.push_back(std::move(links));
  }
  return find_cube_mesh(links_between(buses, ends));
}
}  // namespace symm::cuda
