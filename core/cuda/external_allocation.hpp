// Memory that another library has made by cuMemCreate and mapped by cuMemMap, found by any address
// in it.
#pragma once

#include <cstddef>
#include <optional>

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

  // The range that was mapped at once, and the offset of the address in it.
  struct Range {
    CUdeviceptr base = 0;
    size_t bytes = 0;
    size_t offset = 0;
  };
  Range range(const Device& device) const;

  // Throws Error(invalid_argument) unless `bytes` bytes from the address on lie in `range`, and all
  // of the range is this memory.
  void require_within(const Range& range, size_t bytes) const;

  // The reference is the caller's from now on.
  CUmemGenericAllocationHandle take() noexcept;

 private:
  ExternalAllocation(const Driver& driver, CUdeviceptr address, CUmemGenericAllocationHandle handle)
      : driver_(driver), address_(address), handle_(handle), holds_(true) {}

  const Driver& driver_;
  CUdeviceptr address_;
  CUmemGenericAllocationHandle handle_;
  bool holds_;
};
}  // namespace symm::cuda
