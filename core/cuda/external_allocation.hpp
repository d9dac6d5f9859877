// Memory that another library has made by cuMemCreate and mapped by cuMemMap, found by any address
// in it.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"

namespace symm::cuda {
// A reference to the physical memory behind an address.
class ExternalAllocation {
 public:
  // Nothing if the address was not mapped by cuMemMap.
  static std::optional<ExternalAllocation> at(const void* pointer);
  ~ExternalAllocation();
  ExternalAllocation(ExternalAllocation&& other) noexcept;

  // The device on which the memory lies. Throws Error(invalid_argument) if it lies on none, or
  // cannot be shared.
  int require_shareable() const;
  // That device, or -1.
  int shareable_device() const;

  // The range that was mapped at once, and the offset of the address in it.
  struct Range {
    CUdeviceptr base = 0;
    size_t bytes = 0;
    size_t offset = 0;
  };
  Range range(const Device& device) const;

  // Throws Error(invalid_argument) unless all of the range is this memory.
  void require_whole(const Range& range) const;

  // The allocations that are mapped behind `range`, up to `bytes` bytes from the address on: each
  // has the range's size, and lies on its device. Allocators that grow in place map memory so.
  // Throws Error(invalid_argument) if the bytes go beyond what is mapped so.
  std::vector<ExternalAllocation> behind(
      const Device& device, const Range& range, size_t bytes) const;

  // The reference is the caller's from now on.
  CUmemGenericAllocationHandle take() noexcept;

 private:
  ExternalAllocation(const Driver& driver, CUdeviceptr address, CUmemGenericAllocationHandle handle)
      : driver_(driver), address_(address), handle_(handle), holds_(true) {}
  CUmemAllocationProp properties() const;

  const Driver& driver_;
  CUdeviceptr address_;
  CUmemGenericAllocationHandle handle_;
  bool holds_;
};
}  // namespace symm::cuda
