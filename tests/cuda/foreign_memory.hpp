// Memory as another library allocates it, by calls of the driver and without symm: one
// reservation, which is filled with one allocation or with several. It works on the fake
// driver, and on a real one where the thread has a context.
#pragma once

#include <dlfcn.h>

#include "core/cuda/driver.hpp"  // types of the driver
#include "tests/support/test.hpp"

namespace symm::cuda {
class ForeignMemory {
 public:
  static constexpr size_t kUnit = size_t{2} << 20;

  // The memory lies on a NUMA node of the host if `device` is negative.
  explicit ForeignMemory(int device = 1, size_t bytes = kUnit, size_t pieces = 1,
      int handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      : size(bytes), handle_types_(handle_types), device_(device), piece_(bytes / pieces) {
    call("cuMemAddressReserve", &address_, bytes, size_t{0}, CUdeviceptr{0}, 0ULL);
    map();
  }

  ~ForeignMemory() { free(); }

  ForeignMemory(ForeignMemory&&) = delete;

  // Maps new memory at the same address.
  void map() {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = handle_types_;
    prop.location = {device_ < 0 ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE,
        device_ < 0 ? 0 : device_};

    const CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    for (CUdeviceptr at = address_; at < address_ + size; at += piece_) {
      CUmemGenericAllocationHandle handle = 0;
      call("cuMemCreate", &handle, piece_, &prop, 0ULL);
      call("cuMemMap", at, piece_, size_t{0}, handle, 0ULL);
      call("cuMemSetAccess", at, piece_, &access, size_t{1});
      call("cuMemRelease", handle);
    }

    is_mapped_ = true;
  }

  void unmap() {
    if (!is_mapped_) return;
    for (CUdeviceptr at = address_; at < address_ + size; at += piece_) {
      call("cuMemUnmap", at, piece_);
    }
    is_mapped_ = false;
  }

  void free() {
    unmap();
    if (address_ != 0) call("cuMemAddressFree", address_, size);
    address_ = 0;
  }

  char* data() const { return reinterpret_cast<char*>(address_); }

  uint32_t* words() const { return reinterpret_cast<uint32_t*>(address_); }

  const size_t size;

 private:
  template <class... Arguments>
  static void call(const char* name, Arguments... arguments) {
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    const auto entry = reinterpret_cast<int (*)(Arguments...)>(
        library != nullptr ? dlsym(library, name) : nullptr);
    const int result = entry != nullptr ? entry(arguments...) : -1;
    if (result != 0) throw std::runtime_error(std::string(name) + ": " + std::to_string(result));
  }

  const int handle_types_;
  const int device_;
  const size_t piece_;
  CUdeviceptr address_ = 0;
  bool is_mapped_ = false;
};
}  // namespace symm::cuda
