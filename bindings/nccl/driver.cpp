#include "bindings/nccl/driver.hpp"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace symm::nccl {
namespace {
constexpr int kOk = 0;
// Any failure that the driver does not give.
constexpr int kNotThere = -1;
// CU_EVENT_DISABLE_TIMING.
constexpr unsigned kEvent = 2;
// CU_STREAM_NON_BLOCKING: not ordered with the legacy stream.
constexpr unsigned kStream = 1;
// For all contexts, and mapped for the device.
constexpr unsigned kHostMemory = 3;
// CU_STREAM_CAPTURE_MODE_RELAXED.
constexpr int kRelaxed = 2;

// CU_STREAM_LEGACY, which null stands for in the calls that load() finds.
bool is_legacy(void* stream) { return reinterpret_cast<uintptr_t>(stream) <= 1; }

struct Calls {
  int (*device_get)(int*, int) = nullptr;
  int (*context_retain)(void**, int) = nullptr;
  int (*context_get)(void**) = nullptr;
  int (*context_push)(void*) = nullptr;
  int (*context_pop)(void**) = nullptr;
  int (*capture_info)(void*, int*, unsigned long long*) = nullptr;
  int (*event_create)(void**, unsigned) = nullptr;
  int (*event_destroy)(void*) = nullptr;
  int (*event_record)(void*, void*) = nullptr;
  int (*stream_wait)(void*, void*, unsigned) = nullptr;
  int (*stream_create)(void**, unsigned) = nullptr;
  int (*stream_destroy)(void*) = nullptr;
  int (*stream_query)(void*) = nullptr;
  int (*stream_synchronize)(void*) = nullptr;
  int (*stream_number)(void*, unsigned long long*) = nullptr;
  int (*exchange_mode)(int*) = nullptr;
  int (*host_alloc)(void**, size_t, unsigned) = nullptr;
  int (*host_address)(uint64_t*, void*, unsigned) = nullptr;
  int (*copy)(uint64_t, uint64_t, size_t, void*) = nullptr;
  int (*launch_host)(void*, void (*)(void*), void*) = nullptr;
  bool usable = false;
};

using GetAddress = int (*)(const char*, void**, int, unsigned long long, int*);
GetAddress get_address() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  return reinterpret_cast<GetAddress>(dlsym(library, "cuGetProcAddress_v2"));
}

template <class Call>
bool find(const char* name, int version, Call& call) {
  static const GetAddress get = get_address();
  void* found = nullptr;
  int status = 0;
  if (get == nullptr || get(name, &found, version, 0, &status) != kOk || found == nullptr) {
    return false;
  }
  call = reinterpret_cast<Call>(found);
  return true;
}

Calls load() {
  Calls calls;
  calls.usable = find("cuDeviceGet", 2000, calls.device_get) &&
                 find("cuDevicePrimaryCtxRetain", 7000, calls.context_retain) &&
                 find("cuCtxGetCurrent", 4000, calls.context_get) &&
                 find("cuCtxPushCurrent", 4000, calls.context_push) &&
                 find("cuCtxPopCurrent", 4000, calls.context_pop) &&
                 find("cuStreamGetCaptureInfo", 10010, calls.capture_info) &&
                 find("cuEventCreate", 2000, calls.event_create) &&
                 find("cuEventDestroy", 4000, calls.event_destroy) &&
                 find("cuEventRecord", 2000, calls.event_record) &&
                 find("cuStreamWaitEvent", 3020, calls.stream_wait) &&
                 find("cuStreamCreate", 2000, calls.stream_create) &&
                 find("cuStreamDestroy", 4000, calls.stream_destroy) &&
                 find("cuStreamQuery", 2000, calls.stream_query) &&
                 find("cuStreamSynchronize", 2000, calls.stream_synchronize) &&
                 find("cuStreamGetId", 12000, calls.stream_number) &&
                 find("cuThreadExchangeStreamCaptureMode", 10010, calls.exchange_mode) &&
                 find("cuMemHostAlloc", 2020, calls.host_alloc) &&
                 find("cuMemHostGetDevicePointer", 3020, calls.host_address) &&
                 find("cuMemcpyAsync", 4000, calls.copy) &&
                 find("cuLaunchHostFunc", 10000, calls.launch_host);
  return calls;
}

const Calls& driver() {
  static const auto* const loaded = new Calls(load());
  return *loaded;
}

// CUmemAllocationProp, for memory of a device that goes to other processes as a descriptor.
struct MemoryKind {
  int type = 1;
  int handles = 1;
  int place = 1;
  int device = 0;
  void* unused = nullptr;
  uint64_t flags = 0;
};
// CUmemAccessDesc, for reading and writing.
struct Access {
  int place = 1;
  int device = 0;
  int flags = 3;
};
constexpr int kPeerAccess = 2;

// What NCCL does with the driver for programs, and symm where there is no NCCL.
struct MemoryCalls {
  int (*init)(unsigned) = nullptr;
  int (*context_device)(int*) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*peer_attribute)(int*, int, int, int) = nullptr;
  int (*unit)(size_t*, const MemoryKind*, int) = nullptr;
  int (*create)(unsigned long long*, size_t, const MemoryKind*, unsigned long long) = nullptr;
  int (*reserve)(uint64_t*, size_t, size_t, uint64_t, unsigned long long) = nullptr;
  int (*map)(uint64_t, size_t, size_t, unsigned long long, unsigned long long) = nullptr;
  int (*allow)(uint64_t, size_t, const Access*, size_t) = nullptr;
  int (*unmap)(uint64_t, size_t) = nullptr;
  int (*give_back)(uint64_t, size_t) = nullptr;
  int (*release)(unsigned long long) = nullptr;
  bool usable = false;
};

MemoryCalls load_memory_calls() {
  MemoryCalls calls;
  calls.usable =
      find("cuInit", 2000, calls.init) && find("cuCtxGetDevice", 2000, calls.context_device) &&
      find("cuDeviceGetCount", 2000, calls.device_count) &&
      find("cuDeviceGetP2PAttribute", 8000, calls.peer_attribute) &&
      find("cuMemGetAllocationGranularity", 10020, calls.unit) &&
      find("cuMemCreate", 10020, calls.create) &&
      find("cuMemAddressReserve", 10020, calls.reserve) && find("cuMemMap", 10020, calls.map) &&
      find("cuMemSetAccess", 10020, calls.allow) && find("cuMemUnmap", 10020, calls.unmap) &&
      find("cuMemAddressFree", 10020, calls.give_back) &&
      find("cuMemRelease", 10020, calls.release);
  if (calls.usable) calls.usable = calls.init(0) == kOk;
  return calls;
}

const MemoryCalls& memory_calls() {
  static const auto* const loaded = new MemoryCalls(load_memory_calls());
  return *loaded;
}

// The device itself, and those that reach its memory.
std::vector<Access> accesses_to(int device) {
  int count = 0;
  if (memory_calls().device_count(&count) != kOk) return {};
  std::vector<Access> all;
  for (int other = 0; other < count; ++other) {
    int reaches = other == device ? 1 : 0;
    if (reaches == 0) memory_calls().peer_attribute(&reaches, kPeerAccess, other, device);
    if (reaches != 0) all.push_back({1, other, 3});
  }
  return all;
}

// Sizes of what make_shared_memory() has made.
struct SharedMemory {
  std::mutex mutex;
  std::map<uint64_t, size_t> sizes;
};
SharedMemory& shared_memory() {
  static auto* const all = new SharedMemory;
  return *all;
}

// Maps memory for `device`; 0 if that is not possible.
uint64_t map_memory(unsigned long long handle, size_t bytes, int device) {
  const MemoryCalls& calls = memory_calls();
  uint64_t address = 0;
  if (calls.reserve(&address, bytes, 0, 0, 0) != kOk) return 0;
  if (calls.map(address, bytes, 0, handle, 0) != kOk) {
    calls.give_back(address, bytes);
    return 0;
  }

  const std::vector<Access> accesses = accesses_to(device);
  if (calls.allow(address, bytes, accesses.data(), accesses.size()) == kOk) return address;
  calls.unmap(address, bytes);
  calls.give_back(address, bytes);
  return 0;
}

// The primary context of a device; null if there is none. It is retained once in a process and
// never released: programs that use NCCL keep it all the same, and streams, events and graphs that
// are there at exit need it.
void* context_of(int device) {
  static auto* const mutex = new std::mutex;
  static auto* const known = new std::map<int, void*>;
  const std::lock_guard lock(*mutex);
  void*& context = (*known)[device];
  int handle = 0;
  if (context != nullptr) return context;
  if (!driver().usable || driver().device_get(&handle, device) != kOk) return nullptr;
  if (driver().context_retain(&context, handle) != kOk) context = nullptr;
  return context;
}
}  // namespace

// The legacy stream and the thread's own one are those of the current context.
template <class Body>
int Driver::within(Body body) const noexcept {
  void* current = nullptr;
  if (context_ == nullptr) return kNotThere;
  // A program that has set the device, as nearly all have, is in the context already.
  if (driver().context_get(&current) == kOk && current == context_) return body();

  if (driver().context_push(context_) != kOk) return kNotThere;
  const int result = body();
  void* popped = nullptr;
  driver().context_pop(&popped);
  return result;
}

bool Driver::current_device(int& device) noexcept {
  device = 0;
  void* context = nullptr;
  int count = 0;
  if (!driver().usable || !memory_calls().usable) return false;
  if (driver().context_get(&context) == kOk && context != nullptr) {
    return memory_calls().context_device(&device) == kOk;
  }
  return memory_calls().device_count(&count) == kOk && count > 0;
}

void* Driver::current_context() noexcept {
  void* context = nullptr;
  return driver().usable && driver().context_get(&context) == kOk ? context : nullptr;
}

void Driver::enter_context(void* context) noexcept {
  if (context != nullptr) driver().context_push(context);
}

void* Driver::make_shared_memory(size_t bytes) noexcept {
  MemoryKind kind;
  size_t unit = 0;
  unsigned long long handle = 0;
  if (bytes == 0 || !current_device(kind.device)) return nullptr;
  const MemoryCalls& calls = memory_calls();
  if (calls.unit(&unit, &kind, 0) != kOk || bytes > SIZE_MAX - unit) return nullptr;
  const size_t size = (bytes + unit - 1) / unit * unit;
  if (calls.create(&handle, size, &kind, 0) != kOk) return nullptr;

  uint64_t address = 0;
  try {
    address = map_memory(handle, size, kind.device);
    const std::lock_guard lock(shared_memory().mutex);
    if (address != 0) shared_memory().sizes.emplace(address, size);
  } catch (...) {
    if (address != 0) {
      calls.unmap(address, size);
      calls.give_back(address, size);
    }
    address = 0;
  }
  // A mapping keeps it.
  calls.release(handle);
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

bool Driver::end_shared_memory(void* memory) noexcept {
  const auto address = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(memory));
  size_t size = 0;
  {
    const std::lock_guard lock(shared_memory().mutex);
    const auto found = shared_memory().sizes.find(address);
    if (found == shared_memory().sizes.end()) return false;
    size = found->second;
    shared_memory().sizes.erase(found);
  }
  const bool is_unmapped = memory_calls().unmap(address, size) == kOk;
  return memory_calls().give_back(address, size) == kOk && is_unmapped;
}

bool Driver::is_there() noexcept { return driver().usable; }

bool Driver::open(int device) noexcept {
  try {
    context_ = context_of(device);
  } catch (...) {
    context_ = nullptr;
  }
  return context_ != nullptr;
}

uint64_t Driver::capture_of(void* stream, bool& is_known) const noexcept {
  int status = 0;
  unsigned long long capture = 0;
  is_known = within([&] { return driver().capture_info(stream, &status, &capture); }) == kOk;
  return is_known && status != 0 ? capture : 0;
}

uint64_t Driver::capture_of(void* stream) const noexcept {
  bool is_known = true;
  return is_legacy(stream) ? 0 : capture_of(stream, is_known);
}

void* Driver::make_event() const noexcept {
  void* event = nullptr;
  return within([&] { return driver().event_create(&event, kEvent); }) == kOk ? event : nullptr;
}

void Driver::end_event(void* event) const noexcept {
  if (event != nullptr) within([&] { return driver().event_destroy(event); });
}

bool Driver::record(void* event, void* stream) const noexcept {
  return within([&] { return driver().event_record(event, stream); }) == kOk;
}

bool Driver::wait(void* stream, void* event) const noexcept {
  return within([&] { return driver().stream_wait(stream, event, 0); }) == kOk;
}

bool Driver::make_host_memory(size_t bytes, void*& host, const void*& device) const noexcept {
  // While a stream is captured, an allocation is refused unless the thread says that it may.
  int mode = kRelaxed;
  if (driver().exchange_mode(&mode) != kOk) return false;
  uint64_t address = 0;
  const int result = within([&] {
    const int made = driver().host_alloc(&host, bytes, kHostMemory);
    return made == kOk ? driver().host_address(&address, host, 0) : made;
  });
  driver().exchange_mode(&mode);
  device = reinterpret_cast<const void*>(static_cast<uintptr_t>(address));
  return result == kOk;
}

bool Driver::number_of(void* stream, unsigned long long& number) const noexcept {
  return within([&] { return driver().stream_number(stream, &number); }) == kOk;
}

bool Driver::copy(void* to, const void* from, size_t bytes, void* stream) const noexcept {
  const auto address = [](const void* pointer) {
    return static_cast<uint64_t>(reinterpret_cast<uintptr_t>(pointer));
  };
  return within([&] { return driver().copy(address(to), address(from), bytes, stream); }) == kOk;
}

bool Driver::call(void* stream, void (*body)(void*), void* argument) const noexcept {
  return within([&] { return driver().launch_host(stream, body, argument); }) == kOk;
}

void* Driver::make_stream() const noexcept {
  void* stream = nullptr;
  return within([&] { return driver().stream_create(&stream, kStream); }) == kOk ? stream : nullptr;
}

void Driver::end_stream(void* stream) const noexcept {
  if (stream != nullptr) within([&] { return driver().stream_destroy(stream); });
}

bool Driver::is_over(void* stream) const noexcept {
  return within([&] { return driver().stream_query(stream); }) == kOk;
}

void Driver::await(void* stream) const noexcept {
  within([&] { return driver().stream_synchronize(stream); });
}
}  // namespace symm::nccl
