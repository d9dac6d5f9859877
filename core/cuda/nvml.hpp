// Which GPU is linked to which by NVLink, as NVML says.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/backend/topology.hpp"

namespace symm::cuda {
// The far ends of one GPU's active links, by PCI bus id, "0000:1b:00.0".
struct LinkFacts {
  std::string bus;
  int32_t to_switches = 0;
  std::vector<std::string> to_gpus;
};

// The links of GPUs that are given by PCI bus id, in the order of the devices. Throws
// Error(unavailable) without NVML, or if NVML does not see one of them.
std::vector<LinkFacts> links_of(const std::vector<std::string>& buses);

// The matrix of links, a pure function. Between two GPUs are their direct links, and through
// switches as many as both have: all NVSwitches of a machine are taken to be connected.
Links links_between(std::span<const LinkFacts> devices);
}  // namespace symm::cuda
