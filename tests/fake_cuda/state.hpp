// What the files of the fake driver share: the objects that exist, and what one file
// does to those of another. fake_cuda.hpp is for tests, this is not.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "core/cuda/driver.hpp"
#include "tests/fake_cuda/fake_cuda.hpp"

namespace fake_cuda {
using namespace symm::cuda;

// So that the compiler compares what is defined here with what is called there.
#define DECLARE(call, version, parameters) extern "C" CUresult call parameters;
SYMM_DRIVER_CALLS(DECLARE)
SYMM_OPTIONAL_DRIVER_CALLS(DECLARE)
#undef DECLARE

#define API extern "C" __attribute__((visibility("default"))) CUresult

inline constexpr CUresult CUDA_ERROR_INVALID_VALUE = 1;
inline constexpr size_t kGranularity = size_t{2} << 20;
inline constexpr int kNodes = 2;  // of the host, two devices near to each

// A multicast object, in memory that all processes
// share: what the real one keeps in the driver.
struct Team {
  static constexpr uint64_t kMagic = 0x7465616D;
  uint64_t magic;
  uint64_t size;
  uint32_t devices;             // that it is for
  std::atomic<uint32_t> added;  // a bit for each device that has joined
  std::atomic<uint32_t> bound;  // and for each whose memory is bound
  std::atomic<uint32_t> creator_has_gone;
};

struct State : Settings {
  std::mutex mutex;
  struct Memory {
    int fd = -1;
    size_t bytes = 0;
    CUmemAllocationProp prop{};
    int references = 0;  // by handle
    int mappings = 0;
    // of a multicast object, which has no bytes of its own
    Team* team = nullptr;
    bool created = false;  // not imported
    // bytes and memory, by device
    std::map<CUdevice, std::pair<size_t, unsigned long long>> bound{};
  };
  struct Mapping {
    size_t bytes;
    unsigned long long handle;
  };
  std::vector<std::string> violations;
  long multicast_calls = 0;
  std::map<unsigned long long, Memory> memories;
  std::map<CUdeviceptr, size_t> reservations;
  std::map<CUdeviceptr, size_t> ordinary;                    // as of cudaMalloc
  std::map<CUdeviceptr, std::vector<CUmemLocation>> access;  // of mappings
  long fabric_imports = 0;
  std::map<CUdeviceptr, Mapping> mappings;
  std::map<void*, size_t> registered;
  struct Recorded {
    std::shared_ptr<int> left;  // pieces of work that it comes after
    void* stream;               // null: all of the device
    unsigned long long capture = 0;
  };
  std::map<void*, Recorded> recorded;  // events
  // of streams that wait for something, by identity
  std::map<unsigned long long, std::deque<std::function<bool()>>> queues;
  std::map<void*, unsigned long long> identities;  // of streams that exist
  std::vector<void*> destroyed;                    // handles of streams
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
  std::map<void*, unsigned> shared;  // bytes that launches of a function may ask for
  std::map<std::string, void*> kernel_of;
  std::vector<Launch> launches;
  long contexts = 0;
  unsigned long long next = 1;
};
State& state();
void* fresh();  // a handle that nothing has had; the mutex is held

// ---- accounting.cpp: the result that the call ends
// with by order of fail_call(), if it is to fail

std::optional<CUresult> fails(const char* name);
#define MAY_FAIL() \
  if (const auto ordered = fails(__func__)) return *ordered
// How most calls begin: with the mutex, which they hold until their end.
#define ENTER() \
  MAY_FAIL();   \
  const std::lock_guard lock(state().mutex)

CUresult violation(const std::string& what);  // the mutex is held

// ---- device.cpp

int number_of(CUdevice device);  // on the machine
size_t contexts_pushed();        // by this thread

// ---- memory.cpp, mapping.cpp; the mutex is held

void forget_unused(unsigned long long handle);
// The mapping that contains an address.
std::map<CUdeviceptr, State::Mapping>::iterator mapping_at(CUdeviceptr address);

// ---- streams.cpp

void wait_while_held();
CUresult run(void* stream, std::function<bool()> work);

// ---- multicast.cpp; the mutex is held

// Takes over `fd`.
CUresult import_object(unsigned long long handle, int fd);
bool is_bound(unsigned long long memory);
}  // namespace fake_cuda
