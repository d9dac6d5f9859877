// SPDX-License-Identifier: Apache-2.0
//
// How much of the machine this process may use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace symm::tool {

constexpr uint64_t unlimited = UINT64_MAX;

struct Limit {
  uint64_t soft = unlimited;
  uint64_t hard = unlimited;
};

Limit open_files();     // RLIMIT_NOFILE
Limit locked_memory();  // RLIMIT_MEMLOCK, bytes

struct Space {
  uint64_t total = 0;
  uint64_t free = 0;
};
std::optional<Space> shared_memory_mount();  // /dev/shm

int usable_processors();                      // sched_getaffinity
std::optional<double> processor_quota();      // processors' worth of time that the control group grants; none: no limit
std::optional<Space> memory_control_group();  // the tightest limit of this control group and those above it

std::string shmem_huge_pages();  // "always", "never" ...; "" if the kernel does not say

}  // namespace symm::tool
