// Which GPU is linked to which by NVLink, as NVML says.
#pragma once

#include "core/backend/topology.hpp"

namespace symm::cuda {
inline constexpr unsigned kMaxLinks = 18;  // of a GPU

// The far ends of one GPU's active links.
struct NvLinks {
  int to_switches = 0;
  std::vector<std::string> to_gpus;  // PCI bus ids
};

// For GPUs given by PCI bus id, in the order of the devices. Throws Error(unavailable) without NVML, or where it does not see
// one.
std::vector<NvLinks> nvlinks_of(const std::vector<std::string>& buses);

// The matrix: direct links, and through switches as many as both have (all NVSwitches of a machine are taken to be connected).
// Pure.
Links links_between(const std::vector<std::string>& buses, const std::vector<NvLinks>& ends);
}  // namespace symm::cuda
