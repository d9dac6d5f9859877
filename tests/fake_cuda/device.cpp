// Devices, contexts, and cuGetProcAddress().
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "core/cuda/driver.hpp"
#include "tests/fake_cuda/machines.hpp"
#include "tests/fake_cuda/state.hpp"

namespace fake_cuda {
namespace {
constexpr CUresult kNoEntry = 500;

char context_objects[64];
constexpr CUresult kInvalidContext = 201;
constexpr CUresult kInvalidDevice = 101;
constexpr int kPeerAccess = 2;

// The driver's own is there for exit handlers, too, which run on a thread whose variables have been
// destroyed. So this one needs no destructor.
class ContextStack {
 public:
  size_t size() const { return size_; }
  CUcontext top() const { return size_ > 0 ? all_[size_ - 1] : nullptr; }
  bool push(CUcontext context) {
    if (size_ == std::size(all_)) return false;
    all_[size_++] = context;
    return true;
  }
  void pop() { --size_; }
  void set(CUcontext context) {
    all_[0] = context;
    size_ = 1;
  }

 private:
  CUcontext all_[256];
  size_t size_;
};
constinit thread_local ContextStack context_stack{};

// The numbers of the visible GPUs, for programs that do not know this
// driver: FAKE_CUDA_DEVICES is the number of GPUs of the machine, of
// which CUDA_VISIBLE_DEVICES may name some, in an order of its own.
// If the list is empty, settings() says which are visible.
const std::vector<int>& visible() {
  static const std::vector<int> numbers = [] {
    std::vector<int> list;
    const char* count = std::getenv("FAKE_CUDA_DEVICES");
    for (int i = 0; count != nullptr && i < std::atoi(count); ++i) {
      list.push_back(i);
    }

    const char* names = std::getenv("CUDA_VISIBLE_DEVICES");
    if (list.empty() || names == nullptr) return list;

    list.clear();
    std::istringstream words(names);
    for (std::string word; std::getline(words, word, ',');) {
      list.push_back(std::atoi(word.c_str()));
    }

    return list;
  }();

  return numbers;
}

// The multiprocessors of each GPU. FAKE_CUDA_MULTIPROCESSORS
// sets them where a plan for a large GPU is wanted.
int multiprocessors() {
  const char* count = std::getenv("FAKE_CUDA_MULTIPROCESSORS");
  return count != nullptr ? std::atoi(count) : 16;
}
}  // namespace

size_t contexts_pushed() { return context_stack.size(); }

int number_of(CUdevice device) {
  return visible().empty() ? state().devices.first + device
                           : visible().at(static_cast<size_t>(device));
}

API cuInit(unsigned) { return CUDA_SUCCESS; }

API cuDriverGetVersion(int* version) {
  *version = state().version;
  return CUDA_SUCCESS;
}

API cuGetErrorName(CUresult result, const char** name) {
  *name = result == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}

API cuGetErrorString(CUresult, const char** text) {
  *text = "made to fail";
  return CUDA_SUCCESS;
}

namespace {
int device_count() {
  return visible().empty() ? state().devices.count : static_cast<int>(visible().size());
}
}  // namespace

API cuDeviceGetCount(int* count) {
  MAY_FAIL();
  *count = device_count();
  return CUDA_SUCCESS;
}

API cuDeviceGet(CUdevice* device, int ordinal) {
  MAY_FAIL();
  if (ordinal < 0 || ordinal >= device_count()) return kInvalidDevice;
  *device = ordinal;
  return CUDA_SUCCESS;
}

API cuDeviceGetName(char* name, int size, CUdevice) {
  std::strncpy(name, "fake", static_cast<size_t>(size));
  return CUDA_SUCCESS;
}

API cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  MAY_FAIL();
  std::memset(uuid, number_of(device) + 1, sizeof *uuid);
  return CUDA_SUCCESS;
}

API cuDeviceTotalMem(size_t* bytes, CUdevice) {
  *bytes = size_t{8} << 30;
  return CUDA_SUCCESS;
}

API cuDeviceGetAttribute(int* value, int which, CUdevice device) {
  const auto set = state().attributes.find(which);
  if (set != state().attributes.end()) {
    *value = set->second;
    return CUDA_SUCCESS;
  }
  if (which == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID) {
    *value = device / kNodes;
    return CUDA_SUCCESS;
  }
  *value = which == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT ? multiprocessors() : 1;
  return CUDA_SUCCESS;
}

API cuDeviceGetP2PAttribute(int* value, int which, CUdevice from, CUdevice to) {
  MAY_FAIL();
  if (from == to) return CUDA_ERROR_INVALID_VALUE;
  if (which == kPeerAccess) {
    *value = 1;
    return CUDA_SUCCESS;
  }
  if (which != CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED) return CUDA_ERROR_INVALID_VALUE;
  *value = state().native_atomics ? 1 : 0;
  return CUDA_SUCCESS;
}

API cuDeviceGetPCIBusId(char* id, int size, CUdevice device) {
  std::strncpy(id, fake_machine::bus_of(number_of(device)).c_str(), static_cast<size_t>(size));
  return CUDA_SUCCESS;
}

API cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  ENTER();
  ++state().contexts;
  *context = reinterpret_cast<CUcontext>(context_objects + device);
  return CUDA_SUCCESS;
}

API cuDevicePrimaryCtxRelease(CUdevice) {
  const std::lock_guard lock(state().mutex);
  --state().contexts;
  return CUDA_SUCCESS;
}

API cuCtxGetCurrent(CUcontext* context) {
  *context = context_stack.top();
  return CUDA_SUCCESS;
}

API cuCtxGetDevice(CUdevice* device) {
  if (context_stack.top() == nullptr) return kInvalidContext;
  const auto* const object = reinterpret_cast<const char*>(context_stack.top());
  *device = static_cast<CUdevice>(object - context_objects);
  return CUDA_SUCCESS;
}

API cuCtxSetCurrent(CUcontext context) {
  context_stack.set(context);
  return CUDA_SUCCESS;
}

API cuCtxPushCurrent(CUcontext context) {
  MAY_FAIL();
  return context_stack.push(context) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API cuCtxPopCurrent(CUcontext* context) {
  if (context_stack.size() == 0) return CUDA_ERROR_INVALID_VALUE;
  *context = context_stack.top();
  context_stack.pop();
  return CUDA_SUCCESS;
}

API cuLaunchHostFunc(CUstream stream, void (*body)(void*), void* argument);

namespace {
thread_local int depth = 0;
// Null unless the calls of this thread are counted.
thread_local std::map<std::string, long>* counted = nullptr;

template <auto Call>
struct Entry;

template <class... Arguments, CUresult (*Call)(Arguments...)>
struct Entry<Call> {
  // Written when the entry is looked up, which is before it is used.
  static inline std::atomic<const char*> name{nullptr};

  static CUresult enter(Arguments... arguments) {
    ++depth;
    if (counted != nullptr) ++(*counted)[name.load()];
    const CUresult result = Call(arguments...);
    --depth;
    return result;
  }
};
}  // namespace

bool is_inside() { return depth != 0; }

std::map<std::string, long> calls_of(const std::function<void()>& body) {
  std::map<std::string, long> calls;
  counted = &calls;
  body();
  counted = nullptr;
  return calls;
}

API cuGetProcAddress_v2(const char* name, void** entry, int, unsigned long long, int* status) {
  *entry = nullptr;
  if (!state().hidden.contains(name)) {
#define FIND(call, version, parameters)                                \
  if (std::strcmp(name, #call) == 0) {                                 \
    Entry<&fake_cuda::call>::name = #call;                             \
    *entry = reinterpret_cast<void*>(&Entry<&fake_cuda::call>::enter); \
  }
    SYMM_DRIVER_CALLS(FIND)
    SYMM_OPTIONAL_DRIVER_CALLS(FIND)
    // Calls that the NCCL drop-in makes, and the core does not.
    FIND(cuLaunchHostFunc, 10000, (CUstream, void (*)(void*), void*))
    FIND(cuCtxGetDevice, 2000, (CUdevice*))
#undef FIND
  }
  *status = *entry != nullptr ? 0 : 1;
  return *entry != nullptr ? CUDA_SUCCESS : kNoEntry;
}
}  // namespace fake_cuda
