// Reads /proc, /sys and limits, and tries what the kernel can do. It judges nothing, and leaves
// nothing behind.
#include "tools/host/host.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/environment.hpp"
#include "tools/text.hpp"
#include "tools/unique_fd.hpp"

namespace symm::tool {
namespace {
// Younger than the C library's headers may be.
constexpr int so_peerpidfd = 77;
constexpr long nr_pidfd_open = 434;
constexpr long nr_futex_waitv = 449;

Feature missing(std::string name, const char* call) {
  return {std::move(name), false, std::string(call) + ": " + std::strerror(errno)};
}

namespace fs = std::filesystem;

std::optional<std::string> first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<uint64_t> number(const fs::path& path) {
  const auto line = first_line(path);
  // "max"
  if (!line || line->empty() || line->find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return std::stoull(*line);
}

// Directories of this process's control group and of those that contain it, as far as
// they are visible. Version 2: one hierarchy; version 1: one for each controller.
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

template <typename Function>
Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

std::string error_name(void* library, int result) {
  const char* name = nullptr;
  const auto get = find<int (*)(int, const char**)>(library, "cuGetErrorName");
  if (get != nullptr && get(result, &name) == 0 && name != nullptr) return name;
  return "result " + std::to_string(result);
}

using nlohmann::json;

json part(const std::string& name, const std::string& detail) {
  json out{{"name", name}};
  if (!detail.empty()) out["detail"] = detail;
  return out;
}

std::string draw_below(const json& part, const std::string& indent) {
  const std::string detail = part.value("detail", "");
  std::string out =
      part.at("name").get<std::string>() + (detail.empty() ? "" : "  " + detail) + "\n";
  const json parts = part.value("parts", json::array());
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    out += indent + (last ? "└─ " : "├─ ") + draw_below(parts[i], indent + (last ? "   " : "│  "));
  }
  return out;
}

// The place of a processor, outermost level first. Each level is the kernel's name for it and the
// number of those before it.
enum Level { in_package, in_die, in_node, in_cache, in_core, level_count };

struct Processor {
  int number = 0;
  std::string folder;
  std::string cache;  // the folder of its L3
  std::array<std::string, level_count> name;
  std::array<int, level_count> index{};
};

std::string line_of(const std::string& path) { return first_line(path).value_or(""); }

Processor processor(int number) {
  Processor one{number, "/sys/devices/system/cpu/cpu" + std::to_string(number), "", {}, {}};
  const std::string topology = one.folder + "/topology/";
  for (int i = 0; one.cache.empty(); ++i) {
    const std::string cache = one.folder + "/cache/index" + std::to_string(i);
    const std::string level = line_of(cache + "/level");
    if (level.empty()) break;
    if (level == "3") one.cache = cache;
  }

  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(one.folder, ignored)) {
    if (const std::string file = entry.path().filename(); file.starts_with("node")) {
      one.name[in_node] = file.substr(4);
    }
  }

  one.name[in_package] = line_of(topology + "physical_package_id");
  one.name[in_die] = line_of(topology + "die_cpus_list");
  one.name[in_cache] = one.cache.empty() ? "" : line_of(one.cache + "/shared_cpu_list");
  one.name[in_core] = line_of(topology + "thread_siblings_list");
  if (one.name[in_core].empty()) one.name[in_core] = std::to_string(number);

  return one;
}

struct Machine {
  std::vector<Processor> processors;  // neighbours share what they can
  std::vector<Level> levels;          // those worth a line, outermost first
};

// Numbers what is at this level in the order of the processors; how many there are.
size_t number(std::vector<Processor>& processors, size_t level) {
  std::map<std::string, int> seen;
  for (Processor& one : processors) {
    one.index[level] =
        seen.try_emplace(one.name[level], static_cast<int>(seen.size())).first->second;
  }
  return seen.size();
}

Machine this_machine() {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) {
    throw std::runtime_error("cannot find out which processors may be used");
  }

  Machine machine;
  for (int number = 0; number < CPU_SETSIZE; ++number) {
    if (CPU_ISSET(number, &usable)) machine.processors.push_back(processor(number));
  }

  std::array<size_t, level_count> count{};
  for (size_t level = 0; level < level_count; ++level) {
    count[level] = number(machine.processors, level);
    const bool known = !machine.processors.front().name[level].empty();
    if (level != in_core && known && (level != in_die || count[in_die] > count[in_package])) {
      machine.levels.push_back(static_cast<Level>(level));
    }
  }

  // A node may be more than a package or less, and so may a cache be more than a node.
  std::stable_sort(machine.levels.begin(), machine.levels.end(),
      [&](Level a, Level b) { return count[a] < count[b]; });
  std::stable_sort(machine.processors.begin(), machine.processors.end(),
      [&](const Processor& a, const Processor& b) {
        for (const Level level : machine.levels) {
          if (a.index[level] != b.index[level]) return a.index[level] < b.index[level];
        }
        return a.index[in_core] < b.index[in_core];
      });

  // Values as they are now.
  for (size_t level = 0; level < level_count; ++level) {
    number(machine.processors, level);
  }

  return machine;
}

using Range = std::span<const Processor>;

// The next processors of the range that share what the first has at this level.
size_t together(Range range, Level level) {
  const auto end = std::find_if(range.begin(), range.end(),
      [&](const Processor& one) { return one.index[level] != range[0].index[level]; });
  return static_cast<size_t>(end - range.begin());
}

// "0-3,8"
std::string list(Range range) {
  std::set<int> numbers;
  for (const Processor& one : range) {
    numbers.insert(one.number);
  }

  std::string out;
  for (auto it = numbers.begin(); it != numbers.end();) {
    const int first = *it;
    int last = first;
    ++it;
    while (it != numbers.end() && *it == last + 1) {
      last = *it;
      ++it;
    }
    out += (out.empty() ? "" : ",") + std::to_string(first) +
           (last == first ? "" : "-" + std::to_string(last));
  }

  return out;
}

// All cores below one cache are one line: there may be many.
json cores(Range range) {
  int count = 0;
  for (Range rest = range; !rest.empty(); rest = rest.subspan(together(rest, in_core))) {
    ++count;
  }
  const std::string first = std::to_string(range.front().index[in_core]);
  const size_t threads = range.size() / static_cast<size_t>(count);
  return part(count == 1 ? "core " + first
                         : "cores " + first + "-" + std::to_string(range.back().index[in_core]),
      "processors " + list(range) +
          (threads > 1 ? ", " + std::to_string(threads) + " per core" : ""));
}

// The value of a line "key : value" or "key: value".
std::string value_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find(key);
    const size_t colon = line.find(':');
    if (at != std::string::npos && colon != std::string::npos && at < colon) {
      const size_t value = line.find_first_not_of(" \t", colon + 1);
      return value == std::string::npos
                 ? ""
                 : line.substr(value, line.find_last_not_of(' ') + 1 - value);
    }
  }

  return "";
}

// "32768K", "24 kB"
std::string kilobytes(const std::string& text) {
  return text.empty() ? "" : format_bytes(std::strtoull(text.c_str(), nullptr, 10) << 10);
}

json describe(const Processor& one, Level level) {
  const std::string number = " " + std::to_string(one.index[level]);
  switch (level) {
    case in_package: return part("package" + number, value_of("/proc/cpuinfo", "model name"));
    case in_die: return part("die" + number, "");
    case in_cache: return part("L3" + number, kilobytes(line_of(one.cache + "/size")));
    default: {
      const std::string& node = one.name[in_node];
      return part("NUMA node " + node,
          kilobytes(value_of("/sys/devices/system/node/node" + node + "/meminfo", "MemTotal")));
    }
  }
}

void add_parts(json& whole, Range range, std::span<const Level> levels) {
  if (levels.empty()) return whole["parts"].push_back(cores(range));
  while (!range.empty()) {
    const size_t count = together(range, levels[0]);
    json& one = whole["parts"].emplace_back(describe(range[0], levels[0]));
    add_parts(one, range.first(count), levels.subspan(1));
    range = range.subspan(count);
  }
}
}  // namespace

std::string kernel_release() {
  utsname name{};
  return ::uname(&name) == 0 ? std::string(name.sysname) + " " + name.release + " " + name.machine
                             : "unknown";
}

// Tries the features of a memfd that core/backend/segment.cpp needs: a size that cannot be
// changed, pages that are there before they are touched, and a mapping.
Feature memfd_with_seals() {
  const std::string title = "memfd with seals";
  constexpr rlim_t kBytes = 1 << 20;
  if (const rlim_t most = limit_of(RLIMIT_FSIZE).rlim_cur; most < kBytes) {
    return {title, false,
        "shared memory is a file, and the limit on file sizes (RLIMIT_FSIZE) is " +
            std::to_string(most) + " bytes"};
  }

  const UniqueFd fd(::memfd_create("symm-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return missing(title, "memfd_create");
  if (::ftruncate(fd.get(), kBytes) != 0) return missing(title, "ftruncate");
  if (::fallocate(fd.get(), 0, 0, kBytes) != 0) return missing(title, "fallocate");

  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return missing(title, "fcntl(F_ADD_SEALS)");
  }

  if (::ftruncate(fd.get(), 0) == 0) return {title, false, "a sealed file could be truncated"};
  void* mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) return missing(title, "mmap");
  ::munmap(mapped, kBytes);

  return {title, true, ""};
}

Feature pidfd() {
  const UniqueFd fd(static_cast<int>(::syscall(nr_pidfd_open, ::getpid(), 0)));
  return fd ? Feature{"pidfd_open", true, ""} : missing("pidfd_open", "pidfd_open");
}

Feature peer_pidfd() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return missing("SO_PEERPIDFD", "socketpair");
  }

  const UniqueFd first(ends[0]);
  const UniqueFd second(ends[1]);
  int fd = -1;
  socklen_t size = sizeof fd;

  if (::getsockopt(first.get(), SOL_SOCKET, so_peerpidfd, &fd, &size) != 0) {
    return missing("SO_PEERPIDFD", "getsockopt");
  }

  const UniqueFd owner(fd);
  return {"SO_PEERPIDFD", true, ""};
}

Feature futex_waitv() {
  // futex_waitv() with no word to wait for fails at once: EINVAL where it exists, ENOSYS where it
  // does not, EPERM where a filter forbids it.
  ::syscall(nr_futex_waitv, nullptr, 0, 0, nullptr, 0);
  return errno == EINVAL ? Feature{"futex_waitv", true, ""} : missing("futex_waitv", "futex_waitv");
}

std::vector<Feature> kernel_features() {
  return {memfd_with_seals(), pidfd(), peer_pidfd(), futex_waitv()};
}

rlimit limit_of(decltype(RLIMIT_NOFILE) resource) {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  ::getrlimit(resource, &limit);
  return limit;
}

std::optional<Space> shared_memory_mount() {
  struct statvfs info{};
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
    if (quota > 0 && period > 0) {
      tightest = std::min(tightest.value_or(quota / period), quota / period);
    }
  };

  for (const fs::path& group : control_groups("cpu")) {
    if (const auto line = first_line(group / "cpu.max")) {
      std::istringstream words(*line);
      double quota = 0;
      double period = 0;
      if (words >> quota >> period) consider(quota, period);  // "max 100000" is not a number
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
    // Version 1 of control groups writes "no limit" as a huge number.
    if (!limit || !used || *limit > (uint64_t{1} << 60)) return;
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
  // "always within_size [never]"
  const auto line = first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  if (!line) return "";
  const size_t open = line->find('[');
  const size_t close = line->find(']');
  return open == std::string::npos || close == std::string::npos
             ? ""
             : line->substr(open + 1, close - open - 1);
}

CudaDriver find_cuda_driver() {
  CudaDriver driver;
  const auto why_not = [&]() -> std::string {
    // The library is never closed, since the driver does not support it.
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return ::dlerror();
    driver.present = true;
    const auto init = find<int (*)(unsigned)>(library, "cuInit");
    const auto count = find<int (*)(int*)>(library, "cuDeviceGetCount");
    const auto version = find<int (*)(int*)>(library, "cuDriverGetVersion");
    if (init == nullptr || count == nullptr || version == nullptr) {
      return "libcuda.so.1 lacks cuInit, cuDeviceGetCount or cuDriverGetVersion";
    }
    if (const int result = init(0); result != 0) return "cuInit: " + error_name(library, result);
    version(&driver.version);
    if (const int result = count(&driver.devices); result != 0) {
      return "cuDeviceGetCount: " + error_name(library, result);
    }
    return driver.devices == 0 ? "the driver sees no device" : "";
  };

  driver.reason = why_not();
  driver.usable = driver.reason.empty();
  return driver;
}

std::string file_of(void* library) {
  link_map* place = nullptr;
  return ::dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&place)) == 0 ? place->l_name : "";
}

Ucx find_ucx() {
  Ucx ucx;
  const std::string named = environment("SYMM_UCX");
  Dl_info place{};
  std::error_code ignored;
  std::string path = named.empty() ? "libucp.so.0" : named;
  const auto packages =
      fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path().parent_path();
  if (const auto wheel = packages / "libucx" / "lib" / path;
      named.empty() && fs::exists(wheel, ignored)) {
    path = wheel.string();
  }

  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    ucx.reason = ::dlerror();
    return ucx;
  }
  const auto version = find<void (*)(unsigned*, unsigned*, unsigned*)>(library, "ucp_get_version");
  if (version == nullptr) {
    ucx.reason = path + " has no ucp_get_version";
    return ucx;
  }
  version(&ucx.major, &ucx.minor, &ucx.release);
  if (::dladdr(reinterpret_cast<void*>(version), &place) != 0) path = place.dli_fname;
  ucx.path = path;

  return ucx;
}

void* open_nccl_drop_in() {
  // The loader puts the folder of this program in place of $ORIGIN.
  for (const char* const file : {"$ORIGIN/../lib/symm-nccl/libsymm_nccl.so",
           "$ORIGIN/" SYMM_LIB_FROM_BIN "/symm-nccl/libsymm_nccl.so", "libsymm_nccl.so"}) {
    void* const library = ::dlopen(file, RTLD_LAZY | RTLD_LOCAL);
    if (library != nullptr) return library;
  }
  return nullptr;
}

namespace {
// The NCCL behind a library that may be the drop-in; null if it is the drop-in, and there is none.
// Then `nccl` tells whether it serves by itself, and as which version, or why it does not.
void* look_behind(void* library, Nccl& nccl) {
  const auto marker = find<void* (*)()>(library, "symm_nccl_marker");
  const auto version = find<int (*)(int*)>(library, "ncclGetVersion");
  const auto said = find<const char* (*)(void*)>(library, "ncclGetLastError");
  if (marker == nullptr || version == nullptr || said == nullptr) return library;
  void* const behind = marker();
  if (behind != nullptr) return behind;

  nccl.is_alone = version(&nccl.version) == 0;
  if (nccl.is_alone) return nullptr;
  const std::string call = "ncclGetVersion: ";
  nccl.refusal = said(nullptr);
  if (nccl.refusal.starts_with(call)) nccl.refusal.erase(0, call.size());
  return nullptr;
}
}  // namespace

Nccl find_nccl() {
  Nccl nccl;
  std::error_code ignored;
  const auto packages =
      fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path().parent_path();
  const std::string wheel = packages / "nvidia/nccl/lib/libnccl.so.2";
  nccl.mode = environment("SYMM_NCCL_MODE");

  void* library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = ::dlopen(wheel.c_str(), RTLD_NOW | RTLD_LOCAL);
  const bool is_drop_in = library != nullptr && ::dlsym(library, "symm_nccl_marker") != nullptr;
  if (is_drop_in) nccl.drop_in = file_of(library);

  // SYMM_NCCL counts with `symm run --nccl`, too, whatever a process gets without it.
  const std::string named = environment("SYMM_NCCL");
  void* drop_in = nullptr;
  if (library == nullptr || !named.empty()) drop_in = open_nccl_drop_in();
  if (is_drop_in) drop_in = library;
  void* const behind = drop_in != nullptr ? look_behind(drop_in, nccl) : nullptr;
  // Whoever sets the drop-in's mode starts programs with it.
  if (!is_drop_in && named.empty() && nccl.mode != "off") nccl.refusal.clear();
  if (!is_drop_in && named == "none") {
    nccl.reason = "SYMM_NCCL=none";
    return nccl;
  }
  // Where the loader has none, libsymm loads the one that is named.
  if (library == nullptr && !named.empty()) {
    library = behind != nullptr ? behind : ::dlopen(named.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    nccl.reason = "no libnccl.so.2 in the loader's folders";
    if (behind != nullptr) nccl.reason += "; symm run --nccl has " + file_of(behind);
    return nccl;
  }
  if (is_drop_in && behind == nullptr) {
    nccl.reason = "no NCCL is behind " + nccl.drop_in;
    return nccl;
  }

  nccl.is_alone = false;
  if (is_drop_in) library = behind;
  const auto version = find<int (*)(int*)>(library, "ncclGetVersion");
  if (version == nullptr || version(&nccl.version) != 0) {
    nccl.reason = file_of(library) + " does not tell its version";
    return nccl;
  }
  nccl.path = file_of(library);
  return nccl;
}

std::string draw(const json& root) { return draw_below(root, ""); }

json host_tree() {
  const Machine machine = this_machine();
  json root = part("machine", format_bytes(static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                                           static_cast<uint64_t>(sysconf(_SC_PAGESIZE))));
  add_parts(root, machine.processors, machine.levels);
  return root;
}

std::vector<cpu_set_t> usable_cores() {
  const Machine machine = this_machine();
  std::vector<cpu_set_t> all;
  for (Range rest = machine.processors; !rest.empty();) {
    const size_t count = together(rest, in_core);
    cpu_set_t& core = all.emplace_back();
    CPU_ZERO(&core);
    for (const Processor& one : rest.first(count)) {
      CPU_SET(one.number, &core);
    }
    rest = rest.subspan(count);
  }

  return all;
}
}  // namespace symm::tool
