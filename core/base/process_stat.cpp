// SPDX-License-Identifier: Apache-2.0
#include "core/base/process_stat.hpp"

#include <fcntl.h>

#include <cstdio>
#include <cstring>

#include "core/base/fd.hpp"

namespace symm {

std::optional<ProcessStat> process_stat(int64_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%lld/stat", static_cast<long long>(pid));
  const Fd file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  char text[1024];
  const ssize_t size = read(file.get(), text, sizeof text - 1);
  if (size <= 0) return std::nullopt;
  text[size] = '\0';
  const char* const after_name = std::strrchr(text, ')');  // the name may contain anything
  ProcessStat found;
  unsigned long long start = 0;
  if (after_name == nullptr ||
      std::sscanf(after_name + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                  &found.state, &start) != 2) {
    return std::nullopt;
  }
  found.start = start;
  return found;
}

}  // namespace symm
