// Makes the system calls for NUMA itself, so that libsymm needs no library for them.
#include "core/backend/numa.hpp"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

#include "core/base/error.hpp"
#include "core/base/file_text.hpp"

namespace symm::host {
namespace {
constexpr int kMaxNodes = 1024;
constexpr int kBitsPerWord = 64;

// The bytes of a node that are free, or in caches of files, which can be dropped.
// SIZE_MAX if sysfs does not tell.
size_t available_on_node(int node) {
  std::istringstream file =
      text_of_file("/sys/devices/system/node/node" + std::to_string(node) + "/meminfo");
  size_t available = 0;
  bool any = false;
  for (std::string line; std::getline(file, line);) {
    for (const char* field : {" MemFree:", " Active(file):", " Inactive(file):"}) {
      const size_t at = line.find(field);
      if (at == std::string::npos) continue;
      available += std::stoull(line.substr(at + std::strlen(field))) << 10;
      any = true;
    }
  }

  return any ? available : SIZE_MAX;
}
}  // namespace

bool list_has(const std::string& list, int number) {
  const char* at = list.c_str();
  while (std::isdigit(static_cast<unsigned char>(*at)) != 0) {
    char* end = nullptr;
    const long first = std::strtol(at, &end, 10);
    long last = first;
    if (*end == '-') last = std::strtol(end + 1, &end, 10);
    if (first <= number && number <= last) return true;
    at = *end == ',' ? end + 1 : end;
  }
  return false;
}

int node_of_processors() {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return -1;

  const auto read = [](const std::string& name) {
    std::istringstream file = text_of_file("/sys/devices/system/node/" + name);
    std::string line;
    std::getline(file, line);
    return line;
  };
  const std::string online = read("online");
  for (int node = 0; node < kMaxNodes; ++node) {
    if (!list_has(online, node)) continue;
    const std::string processors = read("node" + std::to_string(node) + "/cpulist");
    bool has_all = true;
    for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
      has_all = has_all && (CPU_ISSET(static_cast<size_t>(processor), &mask) == 0 ||
                               list_has(processors, processor));
    }
    if (has_all) return node;
  }
  return -1;
}

void bind_to_node(int fd, size_t bytes, int node) {
  if (node >= kMaxNodes) {
    throw Error(Status::invalid_argument,
        format("options.numa_node: NUMA node %d is beyond %d, the last that can be", node,
            kMaxNodes - 1));
  }

  // The kernel kills a process when a node runs out, as bound memory cannot come from
  // another node.
  if (const size_t available = available_on_node(node); bytes > available) {
    throw Error(
        Status::out_of_memory, format("%zu bytes were asked for, %zu of NUMA node %d are available",
                                   bytes, available, node));
  }

  // The policy of a shared mapping is that of the file, so it stays when the mapping goes.
  void* whole = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, fd, 0);
  if (whole == MAP_FAILED) {
    throw system_error(errno, "mmap", format("mapping %zu bytes of shared memory", bytes));
  }

  std::array<unsigned long, kMaxNodes / kBitsPerWord> nodes{};
  nodes[static_cast<size_t>(node / kBitsPerWord)] = 1UL << (node % kBitsPerWord);
  const long result = syscall(SYS_mbind, whole, bytes, MPOL_BIND, nodes.data(), kMaxNodes + 1, 0U);
  const int error = result == 0 ? 0 : errno;
  munmap(whole, bytes);
  if (error == 0) return;
  const std::string reason = system_error(error, "mbind").what();

  if (error == EINVAL) {
    throw Error(Status::invalid_argument, format("options.numa_node: there is no NUMA node %d with "
                                                 "memory that this process may use (%s)",
                                              node, reason.c_str()));
  }

  throw Error(Status::unavailable,
      format("options.numa_node: memory cannot be bound to NUMA node %d here: %s%s", node,
          reason.c_str(), error == EPERM ? ", as in containers without CAP_SYS_NICE" : ""));
}
}  // namespace symm::host
