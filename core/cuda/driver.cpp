// Loads libcuda and turns its results into errors. All other files call the driver through the
// table that is filled here.
#include "core/cuda/driver.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

#include "core/base/closed_streams.hpp"
#include "core/base/error.hpp"

namespace symm::cuda {
namespace {
using GetProcAddress = CUresult (*)(const char*, void**, int, unsigned long long, int*);

struct Loaded {
  Driver driver;
  // Why the driver cannot be used, or "".
  std::string reason;
};

std::string version_text(int version) {
  return format("%d.%d", version / 1000, version % 1000 / 10);
}

// The driver stays loaded: its threads and exit handlers do not survive an unload. A failure to
// load it is thrown, and so not remembered: the next call may have the memory or the descriptors
// that this one lacks.
void* load_library() {
  const ClosedStreams held;  // the loader opens files
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    throw Error(Status::unavailable,
        format("no CUDA driver: %s", why != nullptr ? why : "libcuda.so.1 cannot be loaded"));
  }
  return library;
}

Loaded load_driver() {
  void* const library = load_library();
  const auto find = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
  if (find == nullptr) return {{}, "the CUDA driver is older than 12.0, which symm needs"};
  const auto entry = [&](const char* name, int since) {
    void* found = nullptr;
    int status = 0;
    return find(name, &found, since, 0, &status) == CUDA_SUCCESS ? found : nullptr;
  };

  Loaded loaded;
  Driver& driver = loaded.driver;
#define SYMM_DRIVER_FIND(name, since, parameters) \
  driver.name = reinterpret_cast<decltype(driver.name)>(entry(#name, since));
  SYMM_DRIVER_CALLS(SYMM_DRIVER_FIND)
  SYMM_OPTIONAL_DRIVER_CALLS(SYMM_DRIVER_FIND)
#undef SYMM_DRIVER_FIND

#define SYMM_DRIVER_REQUIRE(name, since, parameters) \
  if (driver.name == nullptr)                        \
    return {{},                                      \
        "the CUDA driver has no " #name " of CUDA " + version_text(since) + ", which symm needs"};
  SYMM_DRIVER_CALLS(SYMM_DRIVER_REQUIRE)
#undef SYMM_DRIVER_REQUIRE

  // The driver keeps descriptors of its own.
  const ClosedStreams held;
  if (const CUresult result = driver.cuInit(0); result != CUDA_SUCCESS) {
    return {{}, "cuInit: " + driver.text(result)};
  }
  int devices = 0;
  if (const CUresult result = driver.cuDeviceGetCount(&devices); result != CUDA_SUCCESS) {
    return {{}, "cuDeviceGetCount: " + driver.text(result)};
  }
  if (devices == 0) return {{}, "the CUDA driver sees no device"};

  int version = 0;
  if (driver.cuDriverGetVersion(&version) == CUDA_SUCCESS && version < 12000) {
    loaded.reason = "the CUDA driver is of version " + version_text(version) + "; symm needs 12.0";
  }
  return loaded;
}
}  // namespace

std::string Driver::text(CUresult result) const {
  const char* name = nullptr;
  const char* explanation = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
    return format("CUDA error %d", result);
  }
  if (cuGetErrorString(result, &explanation) != CUDA_SUCCESS || explanation == nullptr) return name;
  return format("%s (%s)", name, explanation);
}

std::string Driver::without(const char* call) const {
#define SYMM_DRIVER_WITHOUT(name, since, parameters) \
  if (std::strcmp(call, #name) == 0)                 \
    return this->name != nullptr                     \
               ? ""                                  \
               : "the CUDA driver has no " #name " of CUDA " + version_text(since);
  SYMM_OPTIONAL_DRIVER_CALLS(SYMM_DRIVER_WITHOUT)
#undef SYMM_DRIVER_WITHOUT
  throw Error(Status::internal, format("%s is not one of the optional driver calls", call));
}

void Driver::fail(CUresult result, const char* call, std::string_view what) const {
  throw Error({result == CUDA_ERROR_OUT_OF_MEMORY ? Status::out_of_memory : Status::cuda, -1, 0,
      format("%s: %s%s", call, text(result).c_str(), what.empty() ? "" : ": ").append(what), 0,
      result});
}

const Driver& driver() {
  // The driver is never destroyed, because handles may be released while static objects are. It is
  // not a static object, because ThreadSanitizer takes one whose constructor throws for an object
  // that is still being made.
  static std::atomic<const Loaded*> known{nullptr};
  static constinit std::mutex making;

  const Loaded* loaded = known.load(std::memory_order_acquire);
  if (loaded == nullptr) {
    const std::lock_guard lock(making);
    loaded = known.load(std::memory_order_relaxed);
    if (loaded == nullptr) {
      loaded = new Loaded(load_driver());
      known.store(loaded, std::memory_order_release);
    }
  }

  if (!loaded->reason.empty()) throw Error(Status::unavailable, loaded->reason);
  return loaded->driver;
}
}  // namespace symm::cuda
