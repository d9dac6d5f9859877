// Facts about the machine that the host back end depends on.
#pragma once

#include <cstddef>
#include <string>

namespace symm::host {
// Size of one last-level cache in bytes; 0 if the system does not tell.
size_t last_level_cache_bytes();
// Memory of the machine in bytes.
size_t memory_bytes();
// Bytes that can be allocated before the kernel has to kill a process: those of the machine, or
// those of this process's control groups if they have a lower limit.
size_t available_memory_bytes();
// Bytes that the limits of this process's control groups leave, of version 1 or 2; SIZE_MAX if
// there is no limit.
size_t available_in_control_groups(
    const std::string& mount = "/sys/fs/cgroup", const std::string& list = "/proc/self/cgroup");
// The processor's name for itself, or "processor".
std::string processor_name();
}  // namespace symm::host
