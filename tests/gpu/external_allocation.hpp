// Device memory as a framework allocates it, by the driver's calls and without symm.
#pragma once

#include <dlfcn.h>
#include "core/cuda/driver.hpp"  // types of the driver
#include "tests/gpu/world.hpp"

namespace gpu {
class ExternalAllocation {
 public:
  // The device must be the thread's current one.
  ExternalAllocation(int device, size_t bytes, int handle_types = ::symm::cuda::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      : bytes_(bytes) {
    cuda(cudaFree(nullptr), "context");
    ::symm::cuda::CUmemAllocationProp prop{};
    prop.type = ::symm::cuda::CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = handle_types;
    prop.location = {::symm::cuda::CU_MEM_LOCATION_TYPE_DEVICE, device};
    const ::symm::cuda::CUmemAccessDesc access{prop.location, ::symm::cuda::CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    unsigned long long handle = 0;
    call("cuMemCreate", &handle, bytes, &prop, 0ULL);
    call("cuMemAddressReserve", &address_, bytes, size_t{0}, 0ULL, 0ULL);
    call("cuMemMap", address_, bytes, size_t{0}, handle, 0ULL);
    call("cuMemSetAccess", address_, bytes, &access, size_t{1});
    call("cuMemRelease", handle);
  }
  ~ExternalAllocation() { free(); }
  ExternalAllocation(const ExternalAllocation&) = delete;
  ExternalAllocation& operator=(const ExternalAllocation&) = delete;
  char* data() const { return reinterpret_cast<char*>(address_); }
  void free() {
    if (address_ == 0) return;
    call("cuMemUnmap", address_, bytes_);
    call("cuMemAddressFree", address_, bytes_);
    address_ = 0;
  }
 private:
  template <class... Arguments> static void call(const char* name, Arguments... arguments) {
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    const auto entry = reinterpret_cast<int (*)(Arguments...)>(library != nullptr ? dlsym(library, name) : nullptr);
    if (entry == nullptr) give_up(std::string("no ") + name);
    if (const int result = entry(arguments...); result != 0) give_up(std::string(name) + ": " + std::to_string(result));
  }

  size_t bytes_;
  unsigned long long address_ = 0;
};
}  // namespace gpu
