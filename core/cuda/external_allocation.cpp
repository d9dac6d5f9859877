// Finds the allocation of another library around an address, by what the driver says of it.
#include "core/cuda/external_allocation.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"

namespace symm::cuda {
namespace {
bool lies_on_a_device(const CUmemAllocationProp& prop) {
  return prop.type == CU_MEM_ALLOCATION_TYPE_PINNED &&
         prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

bool is_for_descriptors(const CUmemAllocationProp& prop) {
  return (prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
}

[[noreturn]] void refuse_beyond(size_t bytes, size_t there, const std::string& what_follows) {
  throw Error(Status::invalid_argument,
      format("bytes: %zu bytes at this pointer go beyond its allocation and those of its size that "
             "follow, which have %zu more: then %s",
          bytes, there, what_follows.c_str()));
}
}  // namespace

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

CUmemAllocationProp ExternalAllocation::properties() const {
  CUmemAllocationProp prop{};
  driver_.require(driver_.cuMemGetAllocationPropertiesFromHandle(&prop, handle_),
      "cuMemGetAllocationPropertiesFromHandle");
  return prop;
}

int ExternalAllocation::shareable_device() const {
  const CUmemAllocationProp prop = properties();
  return lies_on_a_device(prop) && is_for_descriptors(prop) ? prop.location.id : -1;
}

int ExternalAllocation::require_shareable() const {
  const CUmemAllocationProp prop = properties();
  if (!lies_on_a_device(prop)) {
    throw Error(Status::invalid_argument,
        format("pointer: its allocation does not lie on a device (location type %d)",
            prop.location.type));
  }
  if (!is_for_descriptors(prop)) {
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
void ExternalAllocation::require_whole(const Range& range) const {
  const auto is_same = [&](CUdeviceptr address) {
    const std::optional<ExternalAllocation> there = at(reinterpret_cast<const void*>(address));
    return there && there->handle_ == handle_;
  };

  if (is_same(range.base) && is_same(range.base + range.bytes - 1)) return;
  throw Error(Status::invalid_argument,
      "pointer: lies in a range of several allocations, and the driver does not say where this "
      "one begins");
}

std::vector<ExternalAllocation> ExternalAllocation::behind(
    const Device& device, const Range& range, size_t bytes) const {
  std::vector<ExternalAllocation> found;
  size_t there = range.bytes - range.offset;

  while (there < bytes) {
    const CUdeviceptr next = range.base + range.bytes * (found.size() + 1);
    std::optional<ExternalAllocation> one = at(reinterpret_cast<const void*>(next));
    if (!one) refuse_beyond(bytes, there, "no memory of cuMemCreate is mapped");
    if (found.size() + 1 == kMostParts) {
      refuse_beyond(
          bytes, there, format("is allocation %zu, which is one too many", kMostParts + 1));
    }

    if (one->shareable_device() != device.handle()) {
      refuse_beyond(bytes, there, "is memory of another device, or memory that cannot be shared");
    }
    const Range other = one->range(device);
    one->require_whole(other);
    if (other.base != next || other.bytes != range.bytes) {
      refuse_beyond(bytes, there,
          format("is an allocation of %zu bytes, and this one has %zu; adopt it by itself",
              other.bytes, range.bytes));
    }
    found.push_back(std::move(*one));
    there += range.bytes;
  }
  return found;
}
}  // namespace symm::cuda
