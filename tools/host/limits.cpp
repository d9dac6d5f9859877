#include <sys/resource.h>
#include <sys/statvfs.h>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include "tools/host/host.hpp"

namespace symm::tool {
namespace {
namespace fs = std::filesystem;

uint64_t value_of(rlim_t value) { return value == RLIM_INFINITY ? unlimited : static_cast<uint64_t>(value); }

template <typename Resource> Limit resource_limit(Resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return {};
  return {value_of(limit.rlim_cur), value_of(limit.rlim_max)};
}

std::optional<std::string> first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<uint64_t> number(const fs::path& path) {
  const auto line = first_line(path);
  if (!line || line->empty() || line->find_first_not_of("0123456789") != std::string::npos) return std::nullopt;  // "max"
  return std::stoull(*line);
}

// Directories of this process's control group and of those that contain it, as far as they are visible. Version 2: one hierarchy;
// version 1: one for each controller.
std::vector<fs::path> control_groups(const std::string& controller) {
  std::ifstream file("/proc/self/cgroup");
  fs::path root;
  fs::path below;
  for (std::string line; std::getline(file, line);) {  // "id:controllers:/path"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find("," + controller + ",") == std::string::npos) continue;
    if (unified && !root.empty()) continue;  // version 1 has the controller
    root = unified ? fs::path("/sys/fs/cgroup") : fs::path("/sys/fs/cgroup") / controller;
    below = fs::path(line.substr(second + 1)).relative_path();
  }
  std::vector<fs::path> out;
  for (fs::path path = below; !root.empty(); path = path.parent_path()) {
    out.push_back(path.empty() ? root : root / path);
    if (path.empty()) break;
  }
  return out;
}
}  // namespace

Limit open_files() { return resource_limit(RLIMIT_NOFILE); }
Limit locked_memory() { return resource_limit(RLIMIT_MEMLOCK); }

std::optional<Space> shared_memory_mount() {
  struct statvfs info {};
  if (::statvfs("/dev/shm", &info) != 0) return std::nullopt;
  return Space{info.f_blocks * info.f_frsize, info.f_bavail * info.f_frsize};
}

int usable_processors() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

std::optional<double> processor_quota() {
  std::optional<double> tightest;
  const auto consider = [&](double quota, double period) {
    if (quota > 0 && period > 0) tightest = std::min(tightest.value_or(quota / period), quota / period);
  };
  for (const fs::path& group : control_groups("cpu")) {
    if (const auto line = first_line(group / "cpu.max")) {
      std::istringstream words(*line);
      double quota = 0;
      double period = 0;
      if (words >> quota >> period) consider(quota, period);  // "max 100000" is no number
    }
    const auto quota = number(group / "cpu.cfs_quota_us");
    const auto period = number(group / "cpu.cfs_period_us");
    if (quota && period) consider(static_cast<double>(*quota), static_cast<double>(*period));
  }
  return tightest;
}

std::optional<Space> memory_control_group() {
  std::optional<Space> tightest;
  const auto consider = [&](const fs::path& group, const char* limit_name, const char* usage_name) {
    const auto limit = number(group / limit_name);
    const auto used = number(group / usage_name);
    if (!limit || !used || *limit > (uint64_t{1} << 60)) return;  // version 1 writes "no limit" as a huge number
    const Space space{*limit, *limit > *used ? *limit - *used : 0};
    if (!tightest || space.free < tightest->free) tightest = space;
  };
  for (const fs::path& group : control_groups("memory")) {
    consider(group, "memory.max", "memory.current");
    consider(group, "memory.limit_in_bytes", "memory.usage_in_bytes");
  }
  return tightest;
}

std::string shmem_huge_pages() {
  const auto line = first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled");  // "always within_size [never]"
  if (!line) return "";
  const size_t open = line->find('[');
  const size_t close = line->find(']');
  return open == std::string::npos || close == std::string::npos ? "" : line->substr(open + 1, close - open - 1);
}
}  // namespace symm::tool
