// Reads the facts about this machine that the host back end needs from sysfs, /proc
// and sysconf().
#include "core/backend/hardware.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>

#include "core/base/file_text.hpp"

namespace symm::host {
namespace {
// The highest cache level that sysfs knows of processor 0; virtual machines often
// tell sysconf() nothing.
size_t cache_from_sysfs() {
  size_t best = 0;
  int best_level = 0;
  for (int index = 0; index < 8; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    int level = 0;
    size_t size = 0;
    char unit = 0;
    text_of_file(folder + "level") >> level;
    if (!(text_of_file(folder + "size") >> size >> unit)) continue;
    if (unit == 'K') size <<= 10;
    if (unit == 'M') size <<= 20;
    if (level > best_level) {
      best_level = level;
      best = size;
    }
  }

  return best;
}

// Reads a file of one number. Returns `fallback` if it has none, such as "max", which
// says that there is no limit.
size_t number_in(const std::string& path, size_t fallback) {
  std::istringstream file = text_of_file(path);
  size_t value = 0;
  return file >> value ? value : fallback;
}

size_t available_on_machine() {
  std::istringstream file = text_of_file("/proc/meminfo");
  for (std::string word; file >> word;) {
    size_t kilobytes = 0;
    if (word == "MemAvailable:" && file >> kilobytes) return kilobytes << 10;
  }
  return SIZE_MAX;
}

struct MemoryController {
  const char* mount;
  const char* limit;
  const char* used;
};

constexpr MemoryController kFirst{"/memory", "/memory.limit_in_bytes", "/memory.usage_in_bytes"};
constexpr MemoryController kSecond{"", "/memory.max", "/memory.current"};

// The bytes that the limits of a control group and of the groups around it leave.
size_t available_in(const std::string& root, std::string path, const MemoryController& memory) {
  for (size_t available = SIZE_MAX;;) {
    const std::string folder = root + memory.mount + (path == "/" ? "" : path);
    const size_t limit = number_in(folder + memory.limit, SIZE_MAX);
    const size_t used = limit == SIZE_MAX ? 0 : number_in(folder + memory.used, 0);
    available = std::min(available, limit > used ? limit - used : 0);
    if (path.empty() || path == "/") return available;
    path.resize(path.find_last_of('/'));
  }
}
}  // namespace

size_t available_in_control_groups(const std::string& mount, const std::string& list) {
  std::istringstream file = text_of_file(list);
  size_t available = SIZE_MAX;

  // "4:cpu,memory:/path" of version 1, "0::/path" of version 2.
  for (std::string line; std::getline(file, line);) {
    const size_t names = line.find(':') + 1;
    const size_t path = line.find(':', names);
    if (path == std::string::npos) continue;
    const std::string controllers = "," + line.substr(names, path - names) + ",";
    const bool first = controllers.find(",memory,") != std::string::npos;
    if (first || controllers == ",,") {
      available =
          std::min(available, available_in(mount, line.substr(path + 1), first ? kFirst : kSecond));
    }
  }

  return available;
}

size_t available_memory_bytes() {
  return std::min(available_on_machine(), available_in_control_groups());
}

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

std::string processor_name() {
  std::istringstream file = text_of_file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "processor";
}
}  // namespace symm::host
