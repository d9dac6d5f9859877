// SPDX-License-Identifier: Apache-2.0
#include "tests/fake_cuda/fake_cuda.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

#include "core/cuda/driver.hpp"
#include "kernels/cuda/args.hpp"
#include "tests/fake_cuda/machines.hpp"

using namespace symm::cuda;

namespace {

constexpr CUresult kInvalidValue = 1;
constexpr CUresult kNoEntry = 500;
constexpr size_t kGranularity = size_t{2} << 20;
constexpr size_t kPage = 4096;
constexpr int kNodes = 2;                                  // of the host, two devices near to each
constexpr size_t kMulticastGranularity = size_t{4} << 20;  // another one, so that it must be asked for

// A multicast object, in memory that all processes share: what the real one keeps in the driver.
struct Team {
  static constexpr uint64_t kMagic = 0x7465616D;
  uint64_t magic;
  uint64_t size;
  uint32_t devices;             // that it is for
  std::atomic<uint32_t> added;  // a bit for each device that has joined
  std::atomic<uint32_t> bound;  // and for each whose memory is bound
  std::atomic<uint32_t> creator_has_gone;
};

struct State {
  std::mutex mutex;
  struct Memory {
    int fd = -1;
    size_t bytes = 0;
    CUmemAllocationProp prop{};
    int references = 0;  // by handle
    int mappings = 0;
  };
  struct Mapping {
    size_t bytes;
    unsigned long long handle;
  };
  struct Object {
    int fd = -1;
    Team* team = nullptr;
    int references = 0;
    int mappings = 0;
    bool created = false;                                             // not imported
    std::map<CUdevice, std::pair<size_t, unsigned long long>> bound;  // bytes and memory, by device
  };
  std::map<unsigned long long, Object> objects;
  std::vector<std::string> violations;
  long multicast_calls = 0;
  bool multicast_device = true;
  bool multicast_calls_there = true;
  std::map<unsigned long long, Memory> memories;
  std::map<CUdeviceptr, size_t> reservations;
  std::map<CUdeviceptr, size_t> ordinary;                    // as of cudaMalloc
  std::map<CUdeviceptr, std::vector<CUmemLocation>> access;  // of mappings
  std::map<int, int> attributes;                             // that a test has set
  bool ranges_are_reservations = false;
  std::set<std::string> hidden;  // calls that this driver is too old for
  std::map<CUdeviceptr, Mapping> mappings;
  std::map<void*, size_t> registered;
  std::map<void*, void*> unfinished;                          // events, and the streams in which they were recorded
  std::map<void*, std::deque<std::function<bool()>>> queues;  // of streams that wait for something
  std::set<void*> streams, events, host;
  std::map<void*, std::string> kernels;
  std::map<std::string, void*> kernel_of;
  std::vector<fake_cuda::Launch> launches;
  long contexts = 0;
  int devices = 4;
  int first_device = 0;
  unsigned long long next = 1;
};
State& state() {
  static auto* instance = new State;
  return *instance;
}
char context_objects[64];

thread_local std::vector<CUcontext> context_stack;
thread_local int calls_until_failure = 0;
thread_local CUresult failure = 0;
thread_local std::string failed;

bool fails(const char* name) {
  if (calls_until_failure == 0 || --calls_until_failure != 0) return false;
  failed = name;
  return true;
}
#define MAY_FAIL() \
  if (fails(__func__)) return failure

// The mapping that contains an address; the mutex is held.
std::map<CUdeviceptr, State::Mapping>::iterator mapping_at(CUdeviceptr address) {
  State& s = state();
  auto at = s.mappings.upper_bound(address);
  if (at == s.mappings.begin()) return s.mappings.end();
  --at;
  return address - at->first < at->second.bytes ? at : s.mappings.end();
}

// The start of the reservation that has all of a range, or 0; the mutex is held.
CUdeviceptr reservation_of(CUdeviceptr address, size_t bytes) {
  State& s = state();
  auto at = s.reservations.upper_bound(address);
  if (at == s.reservations.begin()) return 0;
  --at;
  return address - at->first < at->second && bytes <= at->second - (address - at->first) ? at->first : 0;
}

bool is_mapped(CUdeviceptr address, size_t bytes) {
  const auto at = state().mappings.lower_bound(address);
  return mapping_at(address) != state().mappings.end() || (at != state().mappings.end() && at->first < address + bytes);
}

// Where memory lies is written on its file, so that another process that is given the descriptor knows it too.
std::string label_of(const CUmemAllocationProp& prop) {
  return "fake_cuda." + std::to_string(prop.location.type) + "." + std::to_string(prop.location.id);
}
CUmemLocation location_of(int fd) {
  char name[256] = {};
  CUmemLocation location{};
  if (readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1) <= 0) return {};
  return std::sscanf(name, "/memfd:fake_cuda.%d.%d", &location.type, &location.id) == 2 ? location : CUmemLocation{};
}

CUresult violation(const std::string& what) {
  state().violations.push_back(what);
  return kInvalidValue;
}

// What happens to a reference to a multicast object; the mutex is held.
CUresult release_object(std::map<unsigned long long, State::Object>::iterator at) {
  State::Object& object = at->second;
  if (object.references == 0) return violation("a multicast object is released twice");
  if (object.created) object.team->creator_has_gone = 1;
  if (!object.bound.empty()) violation("a multicast object is released before it is unbound");
  if (--object.references == 0 && object.mappings != 0) violation("a multicast object is released while it is mapped");
  if (object.references == 0 && object.mappings == 0 && object.bound.empty()) {
    munmap(object.team, sizeof(Team));
    close(object.fd);
    state().objects.erase(at);
  }
  return kSuccess;
}

bool is_bound(unsigned long long memory) {
  for (const auto& [handle, object] : state().objects) {
    for (const auto& [device, part] : object.bound) {
      if (part.second == memory) return true;
    }
  }
  return false;
}

void forget_unused(unsigned long long handle) {
  const auto found = state().memories.find(handle);
  if (found->second.references != 0 || found->second.mappings != 0) return;
  close(found->second.fd);
  state().memories.erase(found);
}

// What a stream is to do, in order; a piece of work that returns false is asked again. The mutex is held.
bool progress(void* stream) {
  const auto found = state().queues.find(stream);
  if (found == state().queues.end()) return true;
  while (!found->second.empty() && found->second.front()()) found->second.pop_front();
  if (!found->second.empty()) return false;
  state().queues.erase(found);
  return true;
}

CUresult run(void* stream, std::function<bool()> work) {
  const std::lock_guard lock(state().mutex);
  if (progress(stream) && work()) return kSuccess;
  state().queues[stream].push_back(std::move(work));
  return kSuccess;
}

// For programs that know nothing of this driver: FAKE_CUDA_DEVICES is the number of GPUs of the machine, of which
// CUDA_VISIBLE_DEVICES may name some, in an order of its own. Empty: as set_devices() says.
const std::vector<int>& visible() {
  static const std::vector<int> numbers = [] {
    std::vector<int> list;
    const char* count = std::getenv("FAKE_CUDA_DEVICES");
    for (int i = 0; count != nullptr && i < std::atoi(count); ++i) list.push_back(i);
    const char* names = std::getenv("CUDA_VISIBLE_DEVICES");
    if (list.empty() || names == nullptr) return list;
    list.clear();
    std::istringstream words(names);
    for (std::string word; std::getline(words, word, ',');) list.push_back(std::atoi(word.c_str()));
    return list;
  }();
  return numbers;
}
int number_of(CUdevice device) {
  return visible().empty() ? state().first_device + device : visible().at(static_cast<size_t>(device));
}

Team* map_team(int fd) {
  void* at = mmap(nullptr, sizeof(Team), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return at == MAP_FAILED ? nullptr : static_cast<Team*>(at);
}

// Takes over `fd`; the mutex is held.
CUresult import_object(unsigned long long handle, int fd) {
  Team* team = map_team(fd);
  if (team == nullptr || team->magic != Team::kMagic) return kInvalidValue;
  // The real driver then makes a fresh one, in which the importer waits for the others for ever.
  if (team->creator_has_gone != 0) return violation("a multicast object is imported that its creator has let go of");
  State::Object& made = state().objects[handle];
  made.fd = fd;
  made.team = team;
  made.references = 1;
  return kSuccess;
}

void* fresh() { return reinterpret_cast<void*>(++state().next * 64); }

}  // namespace

namespace fake_cuda {

std::map<std::string, long> live() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto count = [](const auto& of) { return static_cast<long>(of.size()); };
  const long handles =
      std::count_if(s.memories.begin(), s.memories.end(), [](const auto& m) { return m.second.references != 0; }) +
      count(s.objects);
  std::map<std::string, long> all = {{"handle", handles},
                                     {"reservation", count(s.reservations)},
                                     {"mapping", count(s.mappings)},
                                     {"stream", count(s.streams)},
                                     {"event", count(s.events)},
                                     {"host", count(s.host) + count(s.registered)},
                                     {"context", s.contexts},
                                     {"pushed", count(context_stack)}};
  for (const auto& [handle, object] : s.objects) {
    if (!object.bound.empty()) all["binding"] += count(object.bound);
  }
  return all;
}
void set_multicast(bool device, bool calls) {
  state().multicast_device = device;
  state().multicast_calls_there = calls;
}
long multicast_calls() {
  const std::lock_guard lock(state().mutex);
  return state().multicast_calls;
}
std::vector<std::string> violations() {
  const std::lock_guard lock(state().mutex);
  return state().violations;
}
void fail_call(int n, int result) {
  calls_until_failure = n;
  failure = result;
  failed.clear();
}
std::string failed_call() { return failed; }
std::vector<Launch> launches() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return std::exchange(s.launches, {});
}
void set_devices(int count, int first) {
  state().devices = count;
  state().first_device = first;
}
void set_attribute(int which, int value) { state().attributes[which] = value; }
void name_reservations(bool whole) { state().ranges_are_reservations = whole; }
void hide(const std::string& call) { state().hidden.insert(call); }
void* ordinary_memory(size_t bytes) {
  const std::lock_guard lock(state().mutex);
  void* memory = ::operator new(bytes);
  state().ordinary[reinterpret_cast<CUdeviceptr>(memory)] = bytes;
  return memory;
}
void free_ordinary(void* memory) {
  const std::lock_guard lock(state().mutex);
  state().ordinary.erase(reinterpret_cast<CUdeviceptr>(memory));
  ::operator delete(memory);
}
std::vector<std::pair<int, int>> access(const void* address) {
  const std::lock_guard lock(state().mutex);
  std::vector<std::pair<int, int>> all;
  const auto at = mapping_at(reinterpret_cast<CUdeviceptr>(address));
  if (at == state().mappings.end()) return all;
  for (const CUmemLocation& location : state().access[at->first]) all.emplace_back(location.type, location.id);
  return all;
}
std::pair<int, int> location(const void* address) {
  const std::lock_guard lock(state().mutex);
  const auto at = mapping_at(reinterpret_cast<CUdeviceptr>(address));
  if (at == state().mappings.end()) return {0, 0};
  const CUmemLocation found = state().memories[at->second.handle].prop.location;
  return {found.type, found.id};
}
void enqueue(void* stream, std::function<bool()> work) { run(stream, std::move(work)); }
bool idle(void* stream) {
  const std::lock_guard lock(state().mutex);
  return progress(stream);
}

}  // namespace fake_cuda

#define API extern "C" __attribute__((visibility("default"))) CUresult

API cuInit(unsigned) { return kSuccess; }
API cuDriverGetVersion(int* version) { return *version = 13000, kSuccess; }
API cuGetErrorName(CUresult result, const char** name) {
  return *name = result == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE", kSuccess;
}
API cuGetErrorString(CUresult, const char** text) { return *text = "made to fail", kSuccess; }
API cuDeviceGetCount(int* count) {
  MAY_FAIL();
  return *count = visible().empty() ? state().devices : static_cast<int>(visible().size()), kSuccess;
}
API cuDeviceGet(CUdevice* device, int ordinal) {
  MAY_FAIL();
  return *device = ordinal, kSuccess;
}
API cuDeviceGetName(char* name, int size, CUdevice) { return std::strncpy(name, "fake", static_cast<size_t>(size)), kSuccess; }
API cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  MAY_FAIL();
  std::memset(uuid, number_of(device) + 1, sizeof *uuid);
  return kSuccess;
}
API cuDeviceTotalMem(size_t* bytes, CUdevice) { return *bytes = size_t{8} << 30, kSuccess; }
API cuDeviceGetAttribute(int* value, int which, CUdevice device) {
  const auto set = state().attributes.find(which);
  if (set != state().attributes.end()) return *value = set->second, kSuccess;
  if (which == kHostNode) return *value = device / kNodes, kSuccess;
  if (which == kMulticastSupported) return *value = state().multicast_device ? 1 : 0, kSuccess;
  return *value = which == kMultiprocessors ? 16 : 1, kSuccess;
}
API cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) { return *can = 1, kSuccess; }
API cuDeviceGetPCIBusId(char* id, int size, CUdevice device) {
  return std::strncpy(id, fake_machine::bus_of(number_of(device)).c_str(), static_cast<size_t>(size)), kSuccess;
}

API cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  ++state().contexts;
  return *context = reinterpret_cast<CUcontext>(context_objects + device), kSuccess;
}
API cuDevicePrimaryCtxRelease(CUdevice) {
  const std::lock_guard lock(state().mutex);
  --state().contexts;
  return kSuccess;
}
API cuCtxGetCurrent(CUcontext* context) { return *context = context_stack.empty() ? nullptr : context_stack.back(), kSuccess; }
API cuCtxPushCurrent(CUcontext context) {
  MAY_FAIL();
  return context_stack.push_back(context), kSuccess;
}
API cuCtxPopCurrent(CUcontext* context) {
  if (context_stack.empty()) return kInvalidValue;
  *context = context_stack.back();
  return context_stack.pop_back(), kSuccess;
}

API cuMemGetAllocationGranularity(size_t* unit, const CUmemAllocationProp*, int) {
  MAY_FAIL();
  return *unit = kGranularity, kSuccess;
}
API cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* prop, unsigned long long) {
  MAY_FAIL();
  const bool on_host = prop->location.type == kOnHostNode;
  const int places = on_host ? kNodes : state().devices;
  if (bytes % kGranularity != 0 || (!on_host && prop->location.type != kOnDevice) || prop->type != kPinned) return kInvalidValue;
  if (prop->location.id < 0 || prop->location.id >= places) return kInvalidValue;
  if (on_host && prop->allocFlags.gpuDirectRDMACapable != 0) return kInvalidValue;
  if ((prop->requestedHandleTypes & kFabric) != 0) return 800;  // as on a machine that is not set up for it
  const int fd = memfd_create(label_of(*prop).c_str(), MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return kOutOfMemory;
  const std::lock_guard lock(state().mutex);
  *handle = ++state().next;
  state().memories[*handle] = {fd, bytes, *prop, 1, 0};
  return kSuccess;
}
API cuMemRelease(CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(state().mutex);
  if (const auto object = state().objects.find(handle); object != state().objects.end()) return release_object(object);
  const auto found = state().memories.find(handle);
  if (found == state().memories.end() || found->second.references == 0) return kInvalidValue;
  if (--found->second.references == 0 && is_bound(handle)) violation("memory is released before it is unbound");
  return forget_unused(handle), kSuccess;
}
API cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  const auto at = mapping_at(reinterpret_cast<CUdeviceptr>(address));
  if (at == state().mappings.end()) return kInvalidValue;
  ++state().memories[at->second.handle].references;
  return *handle = at->second.handle, kSuccess;
}
API cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop, CUmemGenericAllocationHandle handle) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  if (!state().memories.contains(handle)) return kInvalidValue;
  return *prop = state().memories[handle].prop, kSuccess;
}
API cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  if (auto of = state().ordinary.upper_bound(address); of != state().ordinary.begin()) {
    --of;
    if (address - of->first < of->second) return *base = of->first, *bytes = of->second, kSuccess;
  }
  const auto at = mapping_at(address);
  if (at == state().mappings.end()) return kInvalidValue;
  if (state().ranges_are_reservations) {
    *base = reservation_of(at->first, at->second.bytes);
    return *bytes = state().reservations[*base], kSuccess;
  }
  return *base = at->first, *bytes = at->second.bytes, kSuccess;
}
API cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, int type, unsigned long long) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  if (const auto object = state().objects.find(handle); object != state().objects.end()) {
    *static_cast<int*>(out) = fcntl(object->second.fd, F_DUPFD_CLOEXEC, 0);
    return *static_cast<int*>(out) < 0 ? kOutOfMemory : kSuccess;
  }
  const auto found = state().memories.find(handle);
  if (type != kPosixFd || found == state().memories.end() || (found->second.prop.requestedHandleTypes & kPosixFd) == 0)
    return kInvalidValue;
  *static_cast<int*>(out) = fcntl(found->second.fd, F_DUPFD_CLOEXEC, 0);
  return *static_cast<int*>(out) < 0 ? kOutOfMemory : kSuccess;
}
API cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* fd, int type) {
  MAY_FAIL();
  const int copy = fcntl(static_cast<int>(reinterpret_cast<intptr_t>(fd)), F_DUPFD_CLOEXEC, 0);
  struct stat status {};
  if (type != kPosixFd || copy < 0 || fstat(copy, &status) != 0) return kInvalidValue;
  CUmemAllocationProp prop{};
  prop.type = kPinned;
  prop.requestedHandleTypes = kPosixFd;
  if (status.st_size == static_cast<off_t>(sizeof(Team))) {
    const std::lock_guard lock(state().mutex);
    return import_object(*handle = ++state().next, copy);
  }
  prop.location = location_of(copy);
  if (prop.location.type == 0) return close(copy), kInvalidValue;
  const std::lock_guard lock(state().mutex);
  *handle = ++state().next;
  state().memories[*handle] = {copy, static_cast<size_t>(status.st_size), prop, 1, 0};
  return kSuccess;
}
API cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  MAY_FAIL();
  void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return kOutOfMemory;
  *address = reinterpret_cast<CUdeviceptr>(at);
  const std::lock_guard lock(state().mutex);
  return state().reservations[*address] = bytes, kSuccess;
}
API cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  if (is_mapped(address, bytes)) return kInvalidValue;  // must be unmapped first
  if (state().reservations.erase(address) != 1) return kInvalidValue;
  return munmap(reinterpret_cast<void*>(address), bytes), kSuccess;
}
API cuMemMap(CUdeviceptr address, size_t bytes, size_t, CUmemGenericAllocationHandle handle, unsigned long long) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  if (const auto object = state().objects.find(handle); object != state().objects.end()) {
    const Team& team = *object->second.team;
    if (state().reservations[address] != bytes || bytes != team.size) return kInvalidValue;
    if (std::popcount(team.bound.load()) != static_cast<int>(team.devices))
      return violation("a multicast object is mapped before all have bound memory");
    ++object->second.mappings;
    return state().mappings[address] = {bytes, handle}, kSuccess;
  }
  const auto found = state().memories.find(handle);
  if (found == state().memories.end() || reservation_of(address, bytes) == 0 || is_mapped(address, bytes) ||
      bytes % kGranularity != 0 || bytes > found->second.bytes)
    return kInvalidValue;
  if (mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, found->second.fd, 0) == MAP_FAILED)
    return kInvalidValue;
  ++found->second.mappings;
  state().mappings[address] = {bytes, handle};
  return kSuccess;
}
API cuMemUnmap(CUdeviceptr address, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  const auto at = state().mappings.find(address);
  if (at == state().mappings.end()) return kInvalidValue;
  const unsigned long long handle = at->second.handle;
  state().mappings.erase(at);
  state().access.erase(address);
  if (const auto object = state().objects.find(handle); object != state().objects.end()) {
    --object->second.mappings;
  } else {
    --state().memories[handle].mappings;
    forget_unused(handle);
  }
  mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return kSuccess;
}
// Memory of a device is the test's to look at. Memory of the host is there for the host when that was asked for, and it cannot be
// asked for memory of a device.
API cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* desc, size_t count) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  const auto at = state().mappings.find(address);
  if (at == state().mappings.end() || at->second.bytes != bytes || count == 0) return kInvalidValue;
  const bool on_host = state().memories[at->second.handle].prop.location.type == kOnHostNode;
  bool readable = !on_host;
  for (size_t i = 0; i < count; ++i) {
    const CUmemLocation& to = desc[i].location;
    if (desc[i].flags != kReadWrite || (to.type == kOnHostNode && !on_host)) return kInvalidValue;
    if (to.type != kOnHostNode && (to.type != kOnDevice || to.id < 0 || to.id >= state().devices)) return kInvalidValue;
    readable = readable || to.type == kOnHostNode;
    state().access[address].push_back(to);
  }
  if (!readable) return kSuccess;
  return mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE) == 0 ? kSuccess : kInvalidValue;
}
// Hands out a descriptor of the whole memory that stays open over exec, unlike what symm hands on.
API cuMemGetHandleForAddressRange(void* out, CUdeviceptr address, size_t bytes, int type, unsigned long long flags) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  const auto at = mapping_at(address);
  if (at == state().mappings.end() || type != kDmabufFd || flags != 0 || bytes == 0) return kInvalidValue;
  if (address % kPage != 0 || bytes % kPage != 0 || bytes > at->second.bytes - (address - at->first)) return kInvalidValue;
  if (state().memories[at->second.handle].prop.location.type != kOnDevice) return kNotSupported;
  *static_cast<int*>(out) = fcntl(state().memories[at->second.handle].fd, F_DUPFD, 0);
  return *static_cast<int*>(out) < 0 ? kOutOfMemory : kSuccess;
}

API cuMemHostAlloc(void** host, size_t bytes, unsigned) {
  MAY_FAIL();
  *host = ::operator new(bytes);
  const std::lock_guard lock(state().mutex);
  return state().host.insert(*host), kSuccess;
}
API cuMemHostGetDevicePointer(CUdeviceptr* address, void* host, unsigned) {
  MAY_FAIL();
  return *address = reinterpret_cast<CUdeviceptr>(host), kSuccess;
}
API cuMemFreeHost(void* host) {
  const std::lock_guard lock(state().mutex);
  if (state().host.erase(host) != 1) return kInvalidValue;
  return ::operator delete(host), kSuccess;
}
API cuMemHostRegister(void* host, size_t bytes, unsigned) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  return state().registered.emplace(host, bytes).second ? kSuccess : kInvalidValue;
}
API cuMemHostUnregister(void* host) {
  const std::lock_guard lock(state().mutex);
  return state().registered.erase(host) == 1 ? kSuccess : kInvalidValue;
}
API cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  MAY_FAIL();
  return run(stream, [=] { return std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes), true; });
}
API cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  MAY_FAIL();
  if (value == 0) return kSuccess;  // fresh pages are zero, and touching them all would cost memory
  return run(stream, [=] { return std::fill_n(reinterpret_cast<unsigned*>(to), count, value), true; });
}
API cuStreamWriteValue64(CUstream stream, CUdeviceptr address, uint64_t value, unsigned) {
  MAY_FAIL();
  return run(stream, [=] { return reinterpret_cast<std::atomic<uint64_t>*>(address)->store(value), true; });
}
API cuStreamWaitValue64(CUstream stream, CUdeviceptr address, uint64_t value, unsigned) {
  MAY_FAIL();
  return run(stream,
             [=] { return static_cast<int64_t>(reinterpret_cast<std::atomic<uint64_t>*>(address)->load() - value) >= 0; });
}
API cuStreamGetId(CUstream stream, unsigned long long* id) {
  MAY_FAIL();
  return *id = reinterpret_cast<uintptr_t>(stream), kSuccess;  // handles of streams are never used again here
}

API cuStreamCreate(CUstream* stream, unsigned) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  void* made = fresh();
  state().streams.insert(made);
  return *stream = static_cast<CUstream>(made), kSuccess;
}
API cuStreamDestroy(CUstream stream) {
  const std::lock_guard lock(state().mutex);
  return state().streams.erase(stream) == 1 ? kSuccess : kInvalidValue;
}
API cuStreamSynchronize(CUstream stream) {
  MAY_FAIL();
  for (int i = 0; i < 20'000; ++i) {
    if (fake_cuda::idle(stream)) return kSuccess;
    usleep(1000);
  }
  return kNotReady;
}
API cuStreamQuery(CUstream stream) { return fake_cuda::idle(stream) ? kSuccess : kNotReady; }
API cuStreamWaitEvent(CUstream, CUevent, unsigned) {
  MAY_FAIL();
  return kSuccess;
}
API cuStreamGetCaptureInfo(CUstream, int* status, unsigned long long* id) {
  MAY_FAIL();
  return *status = 0, *id = 0, kSuccess;
}
API cuThreadExchangeStreamCaptureMode(int*) { return kSuccess; }
API cuEventCreate(CUevent* event, unsigned) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  void* made = fresh();
  state().events.insert(made);
  return *event = static_cast<CUevent>(made), kSuccess;
}
API cuEventRecord(CUevent event, CUstream stream) {
  MAY_FAIL();
  {
    const std::lock_guard lock(state().mutex);
    if (progress(stream)) {
      state().unfinished.erase(event);
      return kSuccess;
    }
    state().unfinished[event] = stream;
  }
  return run(stream, [event] { return state().unfinished.erase(event), true; });
}
API cuEventQuery(CUevent event) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().unfinished.find(event);
  if (found == state().unfinished.end()) return kSuccess;
  progress(found->second);
  return state().unfinished.contains(event) ? kNotReady : kSuccess;
}
API cuEventDestroy(CUevent event) {
  const std::lock_guard lock(state().mutex);
  return state().events.erase(event) == 1 ? kSuccess : kInvalidValue;
}

API cuLibraryLoadData(CUlibrary* library, const void* image, int*, void**, unsigned, int*, void**, unsigned) {
  MAY_FAIL();
  return *library = reinterpret_cast<CUlibrary>(const_cast<void*>(image)), kSuccess;
}
API cuLibraryUnload(CUlibrary) { return kSuccess; }
API cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char* name) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  void*& known = state().kernel_of[name];
  if (known == nullptr) known = fresh();
  state().kernels[known] = name;
  return *kernel = static_cast<CUkernel>(known), kSuccess;
}
API cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  MAY_FAIL();
  return *function = reinterpret_cast<CUfunction>(kernel), kSuccess;
}
// The kernels of host signals are carried out, so that others can wait for them; all other launches are only written down.
static CUresult run_signal(bool put, const SignalArgs& args, CUstream stream) {
  if (args.word == 0) return kSuccess;  // to make it ready
  auto* word = reinterpret_cast<std::atomic<uint32_t>*>(args.word);
  auto* taken = reinterpret_cast<std::atomic<uint32_t>*>(args.taken);
  return run(stream, [=] {
    if (put) return ++*word, true;
    if (static_cast<int32_t>(word->load() - taken->load() - 1) < 0) return false;
    return ++*taken, true;
  });
}

API cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void**) {
  MAY_FAIL();
  std::string name;
  {
    const std::lock_guard lock(state().mutex);
    const auto found = state().kernels.find(function);
    if (found == state().kernels.end()) return kInvalidValue;
    name = found->second;
    fake_cuda::Launch launch{name, config->gridDimX, config->blockDimX, config->hStream};
    if (name == "symm_hybrid_cube_mesh") {
      const auto& args = *static_cast<const CollectiveArgs*>(parameters[0]);
      launch.quad = args.quad;
      launch.partners = args.partners;
    }
    state().launches.push_back(launch);
  }
  if (name != "symm_put_signal" && name != "symm_wait_signal") return kSuccess;
  return run_signal(name == "symm_put_signal", *static_cast<const SignalArgs*>(parameters[0]), config->hStream);
}

// ---- multicast

#define MULTICAST_CALL()                     \
  std::unique_lock lock(state().mutex);      \
  ++state().multicast_calls;                 \
  if (!state().multicast_device) return 801; \
  lock.unlock();                             \
  MAY_FAIL();                                \
  lock.lock()

API cuMulticastGetGranularity(size_t* unit, const CUmulticastObjectProp* prop, int which) {
  MULTICAST_CALL();
  if (prop->numDevices < 2 || prop->handleTypes != kPosixFd) return kInvalidValue;
  return *unit = which == kMinimum ? kMulticastGranularity : 256 * kMulticastGranularity, kSuccess;
}
API cuMulticastCreate(CUmemGenericAllocationHandle* handle, const CUmulticastObjectProp* prop) {
  MULTICAST_CALL();
  if (prop->numDevices < 2 || prop->handleTypes != kPosixFd || prop->size == 0 || prop->size % kMulticastGranularity != 0)
    return kInvalidValue;
  const int fd = memfd_create("fake_multicast", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, sizeof(Team)) != 0) return kOutOfMemory;
  Team* team = map_team(fd);
  if (team == nullptr) return kOutOfMemory;
  team->magic = Team::kMagic;
  team->size = prop->size;
  team->devices = prop->numDevices;
  *handle = ++state().next;
  State::Object& made = state().objects[*handle];
  made.fd = fd;
  made.team = team;
  made.references = 1;
  made.created = true;
  return kSuccess;
}
API cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device) {
  MULTICAST_CALL();
  const auto found = state().objects.find(handle);
  if (found == state().objects.end()) return violation("a device joins no multicast object");
  Team& team = *found->second.team;
  if (found->second.created) return violation("the creator joins by the handle that it created");
  const uint32_t bit = 1U << number_of(device);
  if ((team.added.fetch_or(bit) & bit) != 0) return violation("a device joins twice");
  if (std::popcount(team.added.load()) > static_cast<int>(team.devices)) return violation("too many devices join");
  return kSuccess;
}
API cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset, CUmemGenericAllocationHandle memory, size_t from,
                       size_t bytes, unsigned long long flags) {
  MULTICAST_CALL();
  const auto found = state().objects.find(handle);
  const auto part = state().memories.find(memory);
  if (found == state().objects.end() || part == state().memories.end() || flags != 0) return kInvalidValue;
  Team& team = *found->second.team;
  // The real one waits for them, here or for ever.
  if (std::popcount(team.added.load()) != static_cast<int>(team.devices))
    return violation("memory is bound before all devices have joined");
  if (offset != 0 || from != 0 || bytes != team.size || bytes > part->second.bytes || bytes % kMulticastGranularity != 0)
    return kInvalidValue;
  const CUdevice device = part->second.prop.location.id;
  const uint32_t bit = 1U << number_of(device);
  if ((team.added & bit) == 0) return violation("memory is bound of a device that has not joined");
  if ((team.bound.fetch_or(bit) & bit) != 0) return violation("memory of a device is bound twice");
  return found->second.bound[device] = {bytes, memory}, kSuccess;
}
// Like all calls that give something back, it does not fail by order.
API cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  ++state().multicast_calls;
  const auto found = state().objects.find(handle);
  if (found == state().objects.end() || found->second.references == 0)
    return violation("memory is unbound after the multicast object was released");
  const auto part = found->second.bound.find(device);
  if (part == found->second.bound.end() || offset != 0 || bytes != part->second.first)
    return violation("what is unbound is not what was bound");
  if (found->second.mappings != 0) return violation("memory is unbound before the multicast object is unmapped");
  const auto memory = state().memories.find(part->second.second);
  if (memory == state().memories.end() || memory->second.references == 0) return violation("memory is unbound after its release");
  found->second.team->bound.fetch_and(~(1U << number_of(device)));
  return found->second.bound.erase(part), kSuccess;
}

API cuGetProcAddress_v2(const char* name, void** entry, int, unsigned long long, int* status) {
#define FIND(call, version, parameters) \
  if (std::strcmp(name, #call) == 0) return *entry = reinterpret_cast<void*>(&::call), *status = 0, kSuccess;
  if (state().hidden.contains(name)) return *entry = nullptr, *status = 1, kNoEntry;
  SYMM_DRIVER_CALLS(FIND)
  if (std::strncmp(name, "cuMulticast", 11) != 0 || state().multicast_calls_there) {
    SYMM_OPTIONAL_DRIVER_CALLS(FIND)
  }
#undef FIND
  return *entry = nullptr, *status = 1, kNoEntry;
}
