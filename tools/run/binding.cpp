// SPDX-License-Identifier: Apache-2.0
#include "tools/run/binding.hpp"

#include <hwloc.h>
#include <hwloc/glibc-sched.h>

#include <memory>
#include <stdexcept>

namespace symm::tool {

std::vector<cpu_set_t> usable_cores() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw std::runtime_error("hwloc cannot describe this machine");
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> topology(raw, &hwloc_topology_destroy);
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING);
  if (hwloc_topology_load(raw) != 0) throw std::runtime_error("hwloc cannot describe this machine");
  std::vector<cpu_set_t> cores;
  for (hwloc_obj_t core = nullptr; (core = hwloc_get_next_obj_by_type(raw, HWLOC_OBJ_CORE, core)) != nullptr;) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (hwloc_cpuset_to_glibc_sched_affinity(raw, core->cpuset, &set, sizeof set) == 0) cores.push_back(set);
  }
  if (cores.empty()) throw std::runtime_error("hwloc finds no core that this process may use");
  return cores;
}

}  // namespace symm::tool
