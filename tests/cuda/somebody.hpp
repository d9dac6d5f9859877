// Memory as another library allocates it, on the fake driver: one reservation, filled with one allocation or with several.
#pragma once

#include <vector>
#include "core/cuda/driver.hpp"

namespace symm::cuda {
class SomebodysMemory {
 public:
  static constexpr size_t kUnit = size_t{2} << 20;

  explicit SomebodysMemory(int handle_types, int device = 1, size_t bytes = kUnit, size_t pieces = 1)
      : handle_types_(handle_types), device_(device), piece_(bytes / pieces), size(bytes) {
    driver().require(driver().cuMemAddressReserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
    map();
  }
  ~SomebodysMemory() { free(); }
  SomebodysMemory(const SomebodysMemory&) = delete;
  SomebodysMemory& operator=(const SomebodysMemory&) = delete;

  // New memory, at the same address.
  void map() {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.requestedHandleTypes = handle_types_;
    prop.location = {device_ < 0 ? CU_MEM_LOCATION_TYPE_HOST_NUMA : CU_MEM_LOCATION_TYPE_DEVICE, device_ < 0 ? 0 : device_};
    const CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    for (CUdeviceptr at = address; at < address + size; at += piece_) {
      CUmemGenericAllocationHandle handle = 0;
      driver().require(driver().cuMemCreate(&handle, piece_, &prop, 0), "cuMemCreate");
      driver().require(driver().cuMemMap(at, piece_, 0, handle, 0), "cuMemMap");
      driver().require(driver().cuMemSetAccess(at, piece_, &access, 1), "cuMemSetAccess");
      driver().cuMemRelease(handle);
    }
    is_mapped_ = true;
  }
  void unmap() {
    if (!is_mapped_) return;
    for (CUdeviceptr at = address; at < address + size; at += piece_) driver().cuMemUnmap(at, piece_);
    is_mapped_ = false;
  }
  void free() {
    unmap();
    if (address != 0) driver().cuMemAddressFree(address, size);
    address = 0;
  }
  uint32_t* words() const { return reinterpret_cast<uint32_t*>(address); }
 private:
  int handle_types_;
  int device_;  // negative: a node of the host
  size_t piece_;
  bool is_mapped_ = false;
 public:
  size_t size;
  CUdeviceptr address = 0;
};
}  // namespace symm::cuda
