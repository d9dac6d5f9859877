// SPDX-License-Identifier: Apache-2.0
#include "tests/fake_cuda/fake_cuda.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "core/cuda/driver.hpp"

using namespace symm::cuda;

namespace {

constexpr CUresult kInvalidValue = 1;
constexpr CUresult kNoEntry = 500;
constexpr size_t kGranularity = size_t{2} << 20;

struct State {
  std::mutex mutex;
  std::map<unsigned long long, int> handles;  // to memfds
  std::map<CUdeviceptr, size_t> reservations;
  std::map<CUdeviceptr, size_t> mappings;
  std::set<CUdeviceptr> accessible;
  std::set<void*> streams, events, host;
  std::map<void*, std::string> kernels;
  std::map<std::string, void*> kernel_of;
  std::vector<fake_cuda::Launch> launches;
  long contexts = 0;
  int devices = 4;
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

void* fresh() { return reinterpret_cast<void*>(++state().next * 64); }

}  // namespace

namespace fake_cuda {

std::map<std::string, long> live() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto count = [](const auto& of) { return static_cast<long>(of.size()); };
  return {{"handle", count(s.handles)},   {"reservation", count(s.reservations)},
          {"mapping", count(s.mappings)}, {"stream", count(s.streams)},
          {"event", count(s.events)},     {"host", count(s.host)},
          {"context", s.contexts},        {"pushed", count(context_stack)}};
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
void set_devices(int count) { state().devices = count; }

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
  return *count = state().devices, kSuccess;
}
API cuDeviceGet(CUdevice* device, int ordinal) {
  MAY_FAIL();
  return *device = ordinal, kSuccess;
}
API cuDeviceGetName(char* name, int size, CUdevice) { return std::strncpy(name, "fake", static_cast<size_t>(size)), kSuccess; }
API cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  MAY_FAIL();
  std::memset(uuid, device + 1, sizeof *uuid);
  return kSuccess;
}
API cuDeviceTotalMem(size_t* bytes, CUdevice) { return *bytes = size_t{8} << 30, kSuccess; }
API cuDeviceGetAttribute(int* value, int which, CUdevice) {
  return *value = which == kMultiprocessors ? 16 : which == kMulticastSupported ? 0 : 1, kSuccess;
}
API cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) { return *can = 1, kSuccess; }
API cuDeviceGetPCIBusId(char* id, int size, CUdevice) {
  return std::strncpy(id, "0000:00:00.0", static_cast<size_t>(size)), kSuccess;
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
  if (bytes % kGranularity != 0 || prop->location.type != kOnDevice) return kInvalidValue;
  if ((prop->requestedHandleTypes & kFabric) != 0) return 800;  // as on a machine that is not set up for it
  const int fd = memfd_create("fake_cuda", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return kOutOfMemory;
  const std::lock_guard lock(state().mutex);
  *handle = ++state().next;
  return state().handles[*handle] = fd, kSuccess;
}
API cuMemRelease(CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().handles.find(handle);
  if (found == state().handles.end()) return kInvalidValue;
  close(found->second);
  return state().handles.erase(found), kSuccess;
}
API cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle, int type, unsigned long long) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  if (type != kPosixFd || !state().handles.contains(handle)) return kInvalidValue;
  *static_cast<int*>(out) = dup(state().handles[handle]);
  return kSuccess;
}
API cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* fd, int type) {
  MAY_FAIL();
  const int copy = dup(static_cast<int>(reinterpret_cast<intptr_t>(fd)));
  if (type != kPosixFd || copy < 0) return kInvalidValue;
  const std::lock_guard lock(state().mutex);
  *handle = ++state().next;
  return state().handles[*handle] = copy, kSuccess;
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
  if (state().mappings.contains(address)) return kInvalidValue;  // must be unmapped first
  if (state().reservations.erase(address) != 1) return kInvalidValue;
  return munmap(reinterpret_cast<void*>(address), bytes), kSuccess;
}
API cuMemMap(CUdeviceptr address, size_t bytes, size_t, CUmemGenericAllocationHandle handle, unsigned long long) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  if (!state().handles.contains(handle) || state().reservations[address] != bytes) return kInvalidValue;
  if (mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, state().handles[handle], 0) == MAP_FAILED)
    return kInvalidValue;
  return state().mappings[address] = bytes, kSuccess;
}
API cuMemUnmap(CUdeviceptr address, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  if (state().mappings.erase(address) != 1) return kInvalidValue;
  mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return kSuccess;
}
API cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc*, size_t) {
  MAY_FAIL();
  return mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE) == 0 ? kSuccess : kInvalidValue;
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
API cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream) {
  MAY_FAIL();
  return std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes), kSuccess;
}
API cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream) {
  MAY_FAIL();
  auto* words = reinterpret_cast<unsigned*>(to);
  if (value != 0) std::fill_n(words, count, value);  // fresh pages are zero, and touching them all would cost memory
  return kSuccess;
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
API cuStreamSynchronize(CUstream) {
  MAY_FAIL();
  return kSuccess;
}
API cuStreamQuery(CUstream) { return kSuccess; }
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
API cuEventRecord(CUevent, CUstream) {
  MAY_FAIL();
  return kSuccess;
}
API cuEventQuery(CUevent) { return kSuccess; }
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
API cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void**, void**) {
  MAY_FAIL();
  const std::lock_guard lock(state().mutex);
  const auto found = state().kernels.find(function);
  if (found == state().kernels.end()) return kInvalidValue;
  state().launches.push_back({found->second, config->gridDimX, config->blockDimX, config->hStream});
  return kSuccess;
}

API cuGetProcAddress_v2(const char* name, void** entry, int, unsigned long long, int* status) {
#define FIND(call, version, parameters) \
  if (std::strcmp(name, #call) == 0) return *entry = reinterpret_cast<void*>(&::call), *status = 0, kSuccess;
  SYMM_DRIVER_CALLS(FIND)
#undef FIND
  return *entry = nullptr, *status = 1, kNoEntry;
}
