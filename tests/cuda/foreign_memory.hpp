// Memory as another library allocates it, by calls of the driver and without symm: one
// reservation, which is filled with one allocation or with several. It works on the fake
// driver, and on a real one where the thread has a context.
#pragma once

#include <dlfcn.h>

#include <vector>

#include "core/cuda/driver.hpp"  // types of the driver
#include "tests/support/test.hpp"

namespace symm::cuda {
class ForeignMemory {
 public:
  static constexpr size_t kUnit = size_t{2} << 20;

  // The memory lies on a NUMA node of the host if `device` is negative. Behind it, `room` bytes of
  // the reservation stay unmapped.
  explicit ForeignMemory(int device = 1, size_t bytes = kUnit, size_t pieces = 1,
      int handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, size_t room = 0)
      : size(bytes),
        handle_types_(handle_types),
        device_(device),
        piece_(bytes / pieces),
        room_(room),
        mapped_(pieces) {
    call("cuMemAddressReserve", &address_, bytes + room_, size_t{0}, CUdeviceptr{0}, 0ULL);
    map();
  }

  ~ForeignMemory() { free(); }

  ForeignMemory(ForeignMemory&&) = delete;

  // Maps new memory at the same address.
  void map() {
    for (size_t piece = 0; piece < mapped_.size(); ++piece) {
      map(piece, device_, piece_, handle_types_);
    }
  }

  // Maps other memory in the place of a piece, which may be smaller.
  void replace(size_t piece, int device, size_t bytes,
      int handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    unmap(piece);
    map(piece, device, bytes, handle_types);
  }

  void unmap(size_t piece) {
    if (mapped_[piece] != 0) call("cuMemUnmap", address_ + piece * piece_, mapped_[piece]);
    mapped_[piece] = 0;
  }

  void unmap() {
    for (size_t piece = 0; piece < mapped_.size(); ++piece) {
      unmap(piece);
    }
  }

  void free() {
    unmap();
    if (address_ != 0) call("cuMemAddressFree", address_, size + room_);
    address_ = 0;
  }

  char* data() const { return reinterpret_cast<char*>(address_); }

  uint32_t* words() const { return reinterpret_cast<uint32_t*>(address_); }

  const size_t size;

 private:
  void map(size_t piece, int device, size_t bytes, int handle_types) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = handle_types;
    prop.location = {device < 0 ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE,
        device < 0 ? 0 : device};

    const CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const CUdeviceptr at = address_ + piece * piece_;
    CUmemGenericAllocationHandle handle = 0;
    call("cuMemCreate", &handle, bytes, &prop, 0ULL);
    call("cuMemMap", at, bytes, size_t{0}, handle, 0ULL);
    call("cuMemSetAccess", at, bytes, &access, size_t{1});
    call("cuMemRelease", handle);
    mapped_[piece] = bytes;
  }

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
  const size_t room_;
  CUdeviceptr address_ = 0;
  std::vector<size_t> mapped_;  // bytes, by piece
};
}  // namespace symm::cuda
