// Which GPU is linked to which by NVLink, as NVML says.
#pragma once

#include "core/backend/topology.hpp"

namespace symm::cuda {
// The far ends of one GPU's active links, by PCI bus id, "0000:1b:00.0".
struct LinkFacts {
  std::string bus;
  int32_t to_switches = 0;
  std::vector<std::string> to_gpus;
};

// For GPUs given by PCI bus id, in the order of the devices. Throws Error(unavailable)
// without NVML, or where it does not see one.
std::vector<LinkFacts> links_of(const std::vector<std::string>& buses);

// The matrix: direct links, and through switches as many as both have (all NVSwitches
// of a machine are taken to be connected). Pure.
Links links_between(std::span<const LinkFacts> devices);
}  // namespace symm::cuda
