// The parts of the fake driver that its files share: the objects that exist, and what
// one file does to the objects of another. Tests include fake_cuda.hpp instead.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "core/cuda/driver.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

namespace fake_cuda {
using namespace symm::cuda;

// These declarations let the compiler compare definitions here with calls in the library.
#define DECLARE(call, version, parameters) extern "C" CUresult call parameters;
SYMM_DRIVER_CALLS(DECLARE)
SYMM_OPTIONAL_DRIVER_CALLS(DECLARE)
#undef DECLARE

#define API extern "C" __attribute__((visibility("default"))) CUresult

inline constexpr CUresult CUDA_ERROR_INVALID_VALUE = 1;
inline constexpr size_t kGranularity = size_t{2} << 20;
// NUMA nodes of the host. Two devices are near to each.
inline constexpr int kNodes = 2;

// The part of a multicast object that all processes share. The real driver keeps it inside.
struct Team {
  static constexpr uint64_t kMagic = 0x7465616D;
  uint64_t magic;
  uint64_t size;
  // The number of devices that it is for.
  uint32_t devices;
  // A bit for each device that has joined, and for each device whose memory is bound.
  std::atomic<uint32_t> added;
  std::atomic<uint32_t> bound;
  std::atomic<uint32_t> creator_has_gone;
};

struct State : Settings {
  std::mutex mutex;
  struct Memory {
    // Shared by all memories of this process that are one file: a group of many ranks that are
    // threads maps each of their blocks many times.
    std::shared_ptr<const int> fd;
    size_t bytes = 0;
    CUmemAllocationProp prop{};
    int references = 0;  // by handle
    int mappings = 0;
    // A multicast object has a team, and no bytes of its own.
    Team* team = nullptr;
    bool created = false;  // not imported
    // The bytes and the memory that are bound, by device.
    std::map<CUdevice, std::pair<size_t, unsigned long long>> bound{};
  };
  struct Mapping {
    size_t bytes;
    unsigned long long handle;
  };
  std::vector<std::string> violations;
  long multicast_calls = 0;
  std::map<unsigned long long, Memory> memories;
  // The descriptors of files that were imported, by their number.
  std::map<unsigned long, std::weak_ptr<const int>> files;
  std::map<CUdeviceptr, size_t> reservations;
  // Memory as cudaMalloc makes it, and what was opened of another process's.
  struct Ordinary {
    size_t bytes;
    std::shared_ptr<const int> fd;
    int device;
    unsigned long long id;
    bool has_handle;
    int opened = 0;  // how often; 0: it is this process's own
  };
  std::map<CUdeviceptr, Ordinary> ordinary;
  // Where ordinary memory was freed last: the next lies there again if it has room.
  CUdeviceptr freed_ordinary = 0;
  // The locations that may touch a mapping.
  std::map<CUdeviceptr, std::vector<CUmemLocation>> access;
  long fabric_imports = 0;
  std::map<CUdeviceptr, Mapping> mappings;
  std::map<void*, size_t> registered;
  struct Recorded {
    // Pieces of work before the event that are not done yet.
    std::shared_ptr<int> left;
    // Null means all streams of the device.
    void* stream;
    unsigned long long capture = 0;
  };
  std::map<void*, Recorded> recorded;  // events
  // The work of streams that wait for something, by identity.
  std::map<unsigned long long, std::deque<std::function<bool()>>> queues;
  // The identities of streams that exist, and handles of streams that were destroyed.
  std::map<void*, unsigned long long> identities;
  std::vector<void*> destroyed;
  struct Capture {
    unsigned long long number;
    bool blocking;
    bool invalid = false;
  };
  std::map<unsigned long long, Capture> captures;
  std::vector<std::pair<void*, void*>> waits;
  std::set<void*> streams;
  std::set<void*> events;
  std::set<void*> graphs;
  std::set<void*> host;
  std::map<void*, std::string> kernels;
  // Bytes of shared memory that launches of a function may ask for.
  std::map<void*, unsigned> shared;
  std::map<std::string, void*> kernel_of;
  std::vector<Launch> launches;
  long contexts = 0;
  unsigned long long next = 1;
};
State& state();
// A handle that no object has had. The mutex is held.
void* fresh();
// Closes the descriptor when its last memory goes.
std::shared_ptr<const int> owned(int fd);

// ---- accounting.cpp

// The result of a call that fail_call() makes fail.
std::optional<CUresult> fails(const char* name);
#define MAY_FAIL() \
  if (const auto ordered = fails(__func__)) return *ordered
// Most calls begin so, and hold the mutex until their end.
#define ENTER() \
  MAY_FAIL();   \
  const std::lock_guard lock(state().mutex)

// The mutex is held.
CUresult violation(const std::string& what);

// ---- device.cpp

// The number of a visible device on the machine.
int number_of(CUdevice device);
// Contexts that this thread has pushed.
size_t contexts_pushed();

// ---- memory.cpp, mapping.cpp and ordinary.cpp. The mutex is held.

void forget_unused(unsigned long long handle);
// The ordinary memory that contains an address.
std::map<CUdeviceptr, State::Ordinary>::iterator ordinary_at(CUdeviceptr address);
// The mapping that contains an address.
std::map<CUdeviceptr, State::Mapping>::iterator mapping_at(CUdeviceptr address);

// ---- streams.cpp

void wait_while_held();
void wait_while_copying();
CUresult run(void* stream, std::function<bool()> work);

// ---- multicast.cpp. The mutex is held.

// Imports a multicast object, and takes over `fd`.
CUresult import_object(unsigned long long handle, int fd);
bool is_bound(unsigned long long memory);
}  // namespace fake_cuda
