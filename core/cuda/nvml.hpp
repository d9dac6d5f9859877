// Which GPU is linked to which by NVLink, as NVML says.
#pragma once

#include "core/backend/topology.hpp"

namespace symm::cuda {
inline constexpr unsigned kMaxLinks = 18;  // of a GPU

// The far ends of one GPU's active links. Ranks tell each other, so it is plain data, and not believed beyond its bounds.
struct LinkFacts {
  using Bus = std::array<char, 24>;  // "0000:1b:00.0", ends with 0
  int32_t are_known = 0;             // 0: NVML was not asked, or does not say
  int32_t to_switches = 0;
  int32_t direct = 0;  // how many of `to_gpus` there are
  Bus bus{};
  std::array<Bus, kMaxLinks> to_gpus{};
};
LinkFacts::Bus pack_bus(const char* bus);

// For GPUs given by PCI bus id, in the order of the devices. Throws Error(unavailable) without NVML, or where it does not see
// one.
std::vector<LinkFacts> links_of(const std::vector<std::string>& buses);

// The matrix: direct links, and through switches as many as both have (all NVSwitches of a machine are taken to be connected).
// Pure.
Links links_between(std::span<const LinkFacts> devices);
}  // namespace symm::cuda
