// SPDX-License-Identifier: Apache-2.0
#include "core/host/hardware.hpp"

#include <sched.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace symm::host {
namespace {

// The highest cache level that sysfs knows of processor 0; virtual machines often tell sysconf() nothing.
size_t cache_from_sysfs() {
  size_t best = 0;
  int best_level = 0;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    int level = 0;
    size_t size = 0;
    char unit = 0;
    std::ifstream(folder + "level") >> level;
    if (!(std::ifstream(folder + "size") >> size)) continue;
    std::ifstream file(folder + "size");
    file >> size >> unit;
    if (unit == 'K') size <<= 10;
    if (unit == 'M') size <<= 20;
    if (level > best_level) {
      best_level = level;
      best = size;
    }
  }
  return best;
}

}  // namespace

size_t last_level_cache_bytes() {
  static const size_t bytes = [] {
    const long level3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return level3 > 0 ? static_cast<size_t>(level3) : cache_from_sysfs();
  }();
  return bytes;
}

size_t memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(sysconf(_SC_PAGESIZE)) : 0;
}

int processors() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "processor";
}

}  // namespace symm::host
