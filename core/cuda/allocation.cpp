// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/allocation.hpp"

#include <mutex>
#include <unordered_map>

namespace symm::cuda {
namespace {

CUmemAllocationProp properties(const Device& device, bool fabric) {
  CUmemAllocationProp prop{};
  prop.type = kPinned;
  prop.requestedHandleTypes = kPosixFd | (fabric ? kFabric : 0);
  prop.location = {kOnDevice, device.handle()};
  prop.allocFlags.gpuDirectRDMACapable = device.attribute(kRdmaWithVmm) != 0 ? 1 : 0;
  return prop;
}

// What trying has taught about fabric handles, by device. A device may say that it supports them and the machine still not be set
// up for it, which shows only when memory is created.
struct FabricKnowledge {
  std::mutex mutex;
  std::unordered_map<int, std::string> reason;
};
FabricKnowledge& fabric_knowledge() {
  static auto* instance = new FabricKnowledge;
  return *instance;
}

bool known_without_fabric(const Device& device) {
  FabricKnowledge& known = fabric_knowledge();
  const std::lock_guard lock(known.mutex);
  const auto [entry, first] = known.reason.try_emplace(device.ordinal());
  if (first && device.attribute(kFabricSupported) == 0)
    entry->second = "the device has no fabric handles (CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED)";
  return !entry->second.empty();
}

void learn_without_fabric(const Device& device, std::string reason) {
  FabricKnowledge& known = fabric_knowledge();
  const std::lock_guard lock(known.mutex);
  known.reason[device.ordinal()] = std::move(reason);
}

}  // namespace

std::string Allocation::fabric_reason(const Device& device) {
  known_without_fabric(device);
  FabricKnowledge& known = fabric_knowledge();
  const std::lock_guard lock(known.mutex);
  return known.reason[device.ordinal()];
}

void Allocation::map() {
  const Driver& driver = device_->driver();
  driver.require(driver.cuMemAddressReserve(&address_, mapped_, 0, 0, 0), "cuMemAddressReserve", format("%zu bytes", mapped_));
  is_reserved_ = true;
  driver.require(driver.cuMemMap(address_, mapped_, 0, handle_, 0), "cuMemMap", format("%zu bytes", mapped_));
  is_mapped_ = true;
  const CUmemAccessDesc access{{kOnDevice, device_->handle()}, kReadWrite};
  driver.require(driver.cuMemSetAccess(address_, mapped_, &access, 1), "cuMemSetAccess",
                 format("%zu bytes for device %d", mapped_, device_->ordinal()));
}

std::shared_ptr<Allocation> Allocation::create(const std::shared_ptr<Device>& device, size_t bytes, uint32_t fill) {
  const Driver& driver = device->driver();
  device->reclaim();
  const Current current(*device, Current::Capture::relaxed);
  std::shared_ptr<Allocation> made(new Allocation(device, bytes));
  const bool fabric = !known_without_fabric(*device);
  CUmemAllocationProp prop = properties(*device, fabric);
  size_t unit = 0;
  driver.require(driver.cuMemGetAllocationGranularity(&unit, &prop, kRecommended), "cuMemGetAllocationGranularity");
  if (unit == 0 || bytes > SIZE_MAX - unit)
    throw Error(Status::out_of_memory, format("%zu bytes are more than a device holds", bytes));
  made->mapped_ = (bytes + unit - 1) / unit * unit;
  CUresult result = driver.cuMemCreate(&made->handle_, made->mapped_, &prop, 0);
  if (result != kSuccess && result != kOutOfMemory && fabric) {
    const std::string reason = "cuMemCreate with a fabric handle: " + driver.text(result);
    prop = properties(*device, false);
    result = driver.cuMemCreate(&made->handle_, made->mapped_, &prop, 0);
    if (result == kSuccess) learn_without_fabric(*device, reason);
  }
  driver.require(result, "cuMemCreate", format("%zu bytes on device %d", made->mapped_, device->ordinal()));
  made->has_handle_ = true;
  made->map();
  driver.require(driver.cuMemsetD32Async(made->address_, fill, made->mapped_ / 4, device->stream()), "cuMemsetD32Async");
  driver.require(driver.cuStreamSynchronize(device->stream()), "cuStreamSynchronize");
  return made;
}

std::shared_ptr<Allocation> Allocation::import(const std::shared_ptr<Device>& device, Fd fd, size_t bytes, size_t mapped) {
  const Driver& driver = device->driver();
  const Current current(*device, Current::Capture::relaxed);
  std::shared_ptr<Allocation> made(new Allocation(device, bytes));
  made->mapped_ = mapped;
  driver.require(
      driver.cuMemImportFromShareableHandle(&made->handle_, reinterpret_cast<void*>(static_cast<intptr_t>(fd.get())), kPosixFd),
      "cuMemImportFromShareableHandle", format("%zu bytes into device %d", mapped, device->ordinal()));
  made->has_handle_ = true;
  made->map();
  return made;
}

std::shared_ptr<Allocation> Allocation::adopt(const std::shared_ptr<Device>& device, CUmemGenericAllocationHandle handle,
                                              CUdeviceptr address, size_t bytes) {
  std::shared_ptr<Allocation> made(new Allocation(device, bytes));
  made->mapped_ = bytes;
  made->handle_ = handle;
  made->has_handle_ = true;
  made->address_ = address;
  return made;
}

int Allocation::fd() const {
  if (!fd_) {
    const Driver& driver = device_->driver();
    const Current current(*device_, Current::Capture::relaxed);
    int raw = -1;
    driver.require(driver.cuMemExportToShareableHandle(&raw, handle_, kPosixFd, 0), "cuMemExportToShareableHandle");
    fd_.reset(raw);
  }
  return fd_.get();
}

// In order: the mapping, the addresses, the handle. Failures are not reported: the context may be in error, or the driver
// shutting down.
Allocation::~Allocation() {
  device_->put_off([&driver = device_->driver(), address = address_, mapped = mapped_, is_reserved = is_reserved_,
                    is_mapped = is_mapped_, handle = handle_, has_handle = has_handle_] {
    if (is_mapped) driver.cuMemUnmap(address, mapped);
    if (is_reserved) driver.cuMemAddressFree(address, mapped);
    if (has_handle) driver.cuMemRelease(handle);
  });
}

}  // namespace symm::cuda
