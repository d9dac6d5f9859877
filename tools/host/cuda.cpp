#include <dlfcn.h>
#include "tools/host/host.hpp"

namespace symm::tool {
namespace {
template <typename Function> Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(::dlsym(library, name));
}

std::string error_name(void* library, int result) {
  const char* name = nullptr;
  const auto get = find<int (*)(int, const char**)>(library, "cuGetErrorName");
  if (get != nullptr && get(result, &name) == 0 && name != nullptr) return name;
  return "result " + std::to_string(result);
}
}  // namespace

CudaDriver find_cuda_driver() {
  CudaDriver driver;
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // never closed: the driver does not like it
  if (library == nullptr) {
    const char* error = ::dlerror();
    driver.reason = error == nullptr ? "dlopen(libcuda.so.1) failed" : error;
    return driver;
  }
  driver.present = true;
  const auto init = find<int (*)(unsigned)>(library, "cuInit");
  const auto count = find<int (*)(int*)>(library, "cuDeviceGetCount");
  const auto version = find<int (*)(int*)>(library, "cuDriverGetVersion");
  if (init == nullptr || count == nullptr || version == nullptr) {
    driver.reason = "libcuda.so.1 lacks cuInit, cuDeviceGetCount or cuDriverGetVersion";
    return driver;
  }
  if (const int result = init(0); result != 0) {
    driver.reason = "cuInit: " + error_name(library, result);
    return driver;
  }
  version(&driver.version);
  if (const int result = count(&driver.devices); result != 0) driver.reason = "cuDeviceGetCount: " + error_name(library, result);
  if (driver.reason.empty() && driver.devices == 0) driver.reason = "the driver sees no device";
  driver.usable = driver.reason.empty();
  return driver;
}
}  // namespace symm::tool
