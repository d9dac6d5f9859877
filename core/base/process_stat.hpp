// SPDX-License-Identifier: Apache-2.0
//
// What /proc/<pid>/stat says about another process.
#pragma once

#include <cstdint>
#include <optional>

namespace symm {

struct ProcessStat {
  char state = '?';    // 'T' or 't' while stopped
  uint64_t start = 0;  // clock ticks from boot to its start: with the pid, it names the process for good
};

// Nothing if no such process is to be seen from here.
std::optional<ProcessStat> process_stat(int64_t pid);

}  // namespace symm
