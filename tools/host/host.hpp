// Facts about this machine and its limits. tools/doctor judges them.
#pragma once

#include <sched.h>
#include <sys/resource.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace symm::tool {
// Features of the running kernel, each found out by trying it.
struct Feature {
  std::string name;
  bool available = false;
  std::string reason;  // why not
};

std::string kernel_release();

Feature memfd_with_seals();  // memory that peers can map and nobody can cut off
Feature pidfd();             // a peer's death seen without a race on its number
Feature peer_pidfd();        // SO_PEERPIDFD: the peer's pidfd, across pid namespaces too
Feature futex_waitv();       // one wait for several words
std::vector<Feature> kernel_features();

// The limit of a resource for this process.
rlimit limit_of(decltype(RLIMIT_NOFILE) resource);

struct Space {
  uint64_t total = 0;
  uint64_t free = 0;
};
std::optional<Space> shared_memory_mount();  // /dev/shm

int usable_processors();  // sched_getaffinity
// Processors' worth of time that the control group grants; none: no limit.
std::optional<double> processor_quota();
// The tightest limit of this control group and those above it.
std::optional<Space> memory_control_group();

std::string shmem_huge_pages();  // "always", "never" ...; "" if the kernel does not say

struct CudaDriver {
  bool usable = false;
  bool present = false;  // the library is there, although cuInit may have failed
  int devices = 0;
  int version = 0;     // as cuDriverGetVersion gives it: 12040 is 12.4
  std::string reason;  // why it is not usable
};

// Looks for the driver by itself, independently of what libsymm was built with.
CudaDriver find_cuda_driver();

struct Ucx {
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  std::string path;
  std::string reason;  // why there is none
};
Ucx find_ucx();  // where libsymm looks for it, unless the program has it already

struct Nccl {
  int version = 0;       // as ncclGetVersion() has it
  std::string path;      // of the library itself
  std::string drop_in;   // of symm's drop-in before it; "": programs get NCCL itself
  std::string reason{};  // why there is none
  std::string mode{};    // SYMM_NCCL_MODE
  // Why symm's drop-in makes no communicator in this environment; "": it does.
  std::string refusal{};
  // There is none, and the drop-in serves by itself: to programs that get it in this environment,
  // or that `symm run --nccl` starts.
  bool is_alone = false;
};
// The file of a library that dlopen() has opened; "" if the loader does not tell it.
std::string file_of(void* library);

// Opens libsymm_nccl.so, beside the library of a build or an installation; null if there is none.
void* open_nccl_drop_in();

// The NCCL that a process which opens libnccl.so.2 gets in this environment.
Nccl find_nccl();

// The machine as a tree of parts, each with its "name" ("L3 0", "cores 0-3"), "detail"
// ("32 MiB") and "parts", and its picture in text.
nlohmann::json host_tree();  // the part that this process may use; throws std::runtime_error
std::string draw(const nlohmann::json& root);

// The cores that this process may use, as the sets of their processors, in an order in
// which neighbours share caches.
std::vector<cpu_set_t> usable_cores();  // throws std::runtime_error
}  // namespace symm::tool
