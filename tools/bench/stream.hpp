#pragma once

#include <dlfcn.h>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace symm::tool {
// Where a thread issues a CUDA group's collectives as programs of CUDA do: the device's context becomes current, and stays so,
// and the stream is the thread's own. By the driver itself, which the group has loaded: the tool is linked with no CUDA library.
inline void* stream_on(int32_t device) {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto call = [&](const char* name, auto... arguments) {
    const auto function = driver == nullptr ? nullptr : reinterpret_cast<int (*)(decltype(arguments)...)>(::dlsym(driver, name));
    const int result = function == nullptr ? -1 : function(arguments...);
    if (result != 0) throw std::runtime_error(std::string(name) + ": CUDA error " + std::to_string(result));
  };
  int handle = 0;
  void* context = nullptr;
  call("cuDeviceGet", &handle, int{device});
  call("cuDevicePrimaryCtxRetain", &context, handle);
  call("cuCtxSetCurrent", context);
  return reinterpret_cast<void*>(uintptr_t{2});  // CU_STREAM_PER_THREAD
}
}  // namespace symm::tool
