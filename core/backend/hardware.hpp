// What the host back end wants to know of the machine.
#pragma once

#include <cstddef>
#include <string>

namespace symm::host {
// Of one last-level cache; 0 if the system does not say.
size_t last_level_cache_bytes();
// Memory of the machine in bytes.
size_t memory_bytes();
// What can still be allocated without something being killed for it: of the machine,
// and of this process's control group if it has a limit.
size_t available_memory_bytes();
// Of its control groups alone, of either version; SIZE_MAX if none has a limit.
size_t available_in_control_groups(
    const std::string& mount = "/sys/fs/cgroup", const std::string& list = "/proc/self/cgroup");
// As the processor calls itself, or "processor".
std::string processor_name();
}  // namespace symm::host
