// Finds the allocation of another library around an address, by what the driver says of it.
#include "core/cuda/external_allocation.hpp"

#include <cstddef>
#include <optional>
#include <utility>

#include "core/base/error.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"

namespace symm::cuda {
std::optional<ExternalAllocation> ExternalAllocation::at(const void* pointer) {
  const Driver& loaded = driver();
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = loaded.cuMemRetainAllocationHandle(&handle, const_cast<void*>(pointer));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) loaded.require(result, "cuMemRetainAllocationHandle");
  if (result != CUDA_SUCCESS) return std::nullopt;
  return ExternalAllocation(loaded, reinterpret_cast<CUdeviceptr>(pointer), handle);
}

ExternalAllocation::ExternalAllocation(ExternalAllocation&& other) noexcept
    : driver_(other.driver_),
      address_(other.address_),
      handle_(other.handle_),
      holds_(std::exchange(other.holds_, false)) {}

ExternalAllocation::~ExternalAllocation() {
  if (holds_) driver_.cuMemRelease(handle_);
}

CUmemGenericAllocationHandle ExternalAllocation::take() noexcept {
  holds_ = false;
  return handle_;
}

int ExternalAllocation::require_shareable() const {
  CUmemAllocationProp prop{};
  driver_.require(driver_.cuMemGetAllocationPropertiesFromHandle(&prop, handle_),
      "cuMemGetAllocationPropertiesFromHandle");

  if (prop.type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    throw Error(Status::invalid_argument,
        format("pointer: its allocation does not lie on a device (location type %d)",
            prop.location.type));
  }
  if ((prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0) {
    throw Error(Status::invalid_argument,
        "pointer: its allocation was not made for a POSIX file descriptor "
        "(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), so "
        "it cannot be shared");
  }
  return prop.location.id;
}

ExternalAllocation::Range ExternalAllocation::range(const Device& device) const {
  const ContextGuard current(device, ContextGuard::Capture::relaxed);
  Range range;
  driver_.require(driver_.cuMemGetAddressRange(&range.base, &range.bytes, address_),
      "cuMemGetAddressRange", "pointer");
  range.offset = static_cast<size_t>(address_ - range.base);
  return range;
}

// Offsets count from where the allocation was mapped. If the driver named the whole of a
// reservation that was filled part by part, as allocators do that grow in place, offsets would be
// wrong, and would reach memory of others.
void ExternalAllocation::require_within(const Range& range, size_t bytes) const {
  const auto is_same = [&](CUdeviceptr address) {
    const std::optional<ExternalAllocation> there = at(reinterpret_cast<const void*>(address));
    return there && there->handle_ == handle_;
  };

  if (!is_same(range.base) || !is_same(range.base + range.bytes - 1)) {
    throw Error(Status::invalid_argument,
        "pointer: lies in a range of several allocations, and the driver does not say where this "
        "one begins");
  }

  if (bytes > range.bytes - range.offset) {
    throw Error(
        Status::invalid_argument, format("bytes: %zu bytes at this pointer go beyond its "
                                         "allocation, which has %zu more; what was mapped piece by "
                                         "piece can be adopted piece by piece",
                                      bytes, range.bytes - range.offset));
  }
}
}  // namespace symm::cuda
