// Makes, imports, adopts and maps memory by the driver's virtual memory calls. Nothing here
// knows of groups.
#include "core/cuda/allocation.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/suspendable.hpp"
#include "core/base/closed_streams.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/log.hpp"
#include "core/base/per_process.hpp"
#include "core/cuda/borrowed_allocation.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/external_allocation.hpp"

namespace symm::cuda {
namespace {
CUmemAllocationProp properties(const Device& device, CUmemLocation location, bool fabric) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes =
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | (fabric ? CU_MEM_HANDLE_TYPE_FABRIC : 0);
  prop.location = location;
  prop.allocFlags.gpuDirectRDMACapable =
      location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
              device.attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) != 0
          ? 1
          : 0;
  return prop;
}

std::string failed(const Driver& driver, const char* call, CUresult result) {
  return format("%s with a fabric handle: %s", call, driver.text(result).c_str());
}

// Tries to make a fabric handle, since a device may say that it has them and the machine still not
// be set up for them (no IMEX channel for this process). If there is no memory for that, the answer
// is not final, and it is tried again.
std::string try_fabric(const Device& device, bool& is_final) {
  const Driver& driver = device.driver();
  const ContextGuard current(device, ContextGuard::Capture::relaxed);
  const CUmemAllocationProp prop =
      properties(device, {CU_MEM_LOCATION_TYPE_DEVICE, device.handle()}, true);

  size_t unit = 0;
  CUmemGenericAllocationHandle made = 0;
  CUresult result =
      driver.cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  const char* call = "cuMemCreate";
  if (result == CUDA_SUCCESS) result = driver.cuMemCreate(&made, unit, &prop, 0);
  if (result == CUDA_SUCCESS) {
    FabricHandle handle;
    call = "cuMemExportToShareableHandle";
    result = driver.cuMemExportToShareableHandle(&handle, made, CU_MEM_HANDLE_TYPE_FABRIC, 0);
    driver.cuMemRelease(made);
  }

  is_final = result != CUDA_ERROR_OUT_OF_MEMORY;
  return result == CUDA_SUCCESS ? "" : failed(driver, call, result);
}

// The reasons that trying has found, by device.
struct FabricKnowledge {
  std::mutex mutex;
  std::unordered_map<int, std::string> reason;
};

FabricKnowledge& fabric_knowledge() { return PerProcess<FabricKnowledge>::current(); }

std::string learn_fabric(const Device& device, const std::string& reason) {
  if (!reason.empty()) {
    log::write(log::Level::info,
        "device %d: memory is shared by descriptors, not by fabric handles: %s", device.ordinal(),
        reason.c_str());
  }
  FabricKnowledge& known = fabric_knowledge();
  const std::lock_guard lock(known.mutex);
  // operator[] would leave an empty reason behind if there is no memory for this one.
  return known.reason.insert_or_assign(device.ordinal(), reason).first->second;
}
}  // namespace

std::string Allocation::fabric_reason(const Device& device) {
  if (!is_on("SYMM_FABRIC")) return "SYMM_FABRIC=0";
  if (device.attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED) == 0) {
    return "the device has no fabric handles (CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED)";
  }

  {
    FabricKnowledge& known = fabric_knowledge();
    const std::lock_guard lock(known.mutex);
    if (const auto found = known.reason.find(device.ordinal()); found != known.reason.end()) {
      return found->second;
    }
  }

  bool is_final = false;
  std::string reason = try_fabric(device, is_final);
  return is_final ? learn_fabric(device, reason) : reason;
}

void Allocation::map(size_t alignment, bool is_imported) {
  const Driver& driver = device_->driver();
  driver.require(
      driver.cuMemAddressReserve(&address_, mapped_, alignment, 0, 0), "cuMemAddressReserve", [&] {
        return format("%zu bytes%s", mapped_,
            alignment == 0 ? "" : format(" at a multiple of %zu", alignment).c_str());
      });
  is_reserved_ = true;

  SYMM_POINT("cuda.map");
  map_parts(is_imported);
}

void Allocation::map_parts(bool is_imported) {
  const Driver& driver = device_->driver();
  const size_t bytes = part_bytes();
  const int may = access_ == Access::read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                               : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  // The driver ignores which node is named: to it the host is one.
  const CUmemAccessDesc access[] = {{{CU_MEM_LOCATION_TYPE_DEVICE, device_->handle()}, may},
      {{CU_MEM_LOCATION_TYPE_HOST_NUMA, 0}, may}};

  while (mapped_parts_ < parts()) {
    const CUdeviceptr at = address_ + mapped_parts_ * bytes;
    driver.require(driver.cuMemMap(at, bytes, 0,
                       mapped_parts_ == 0 ? handle_ : more_handles_[mapped_parts_ - 1], 0),
        "cuMemMap", [&] { return format("%zu bytes", bytes); });
    ++mapped_parts_;
    driver.require(
        driver.cuMemSetAccess(at, bytes, access, on_host_ ? 2 : 1), "cuMemSetAccess", [&] {
          return format("%zu bytes for device %d%s%s", bytes, device_->ordinal(),
              on_host_ ? " and the host" : "",
              is_imported ? ", of another rank, whose GPU this one may not be able to access" : "");
        });
  }
}

// Memory without an address.
void Allocation::make() {
  const Driver& driver = device_->driver();
  driver.require(driver.cuMemCreate(&handle_, mapped_, &properties_, 0), "cuMemCreate", [&] {
    const int place = on_host_ ? properties_.location.id : device_->ordinal();
    return format("%zu bytes on %s %d", mapped_, on_host_ ? "NUMA node" : "device", place);
  });
  has_handle_ = true;
}

std::shared_ptr<Allocation> Allocation::create(
    const std::shared_ptr<Device>& device, size_t bytes, const Placement& placement) {
  const Driver& driver = device->driver();
  CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, device->handle()};
  if (placement.on_host) {
    if (const std::string reason = host_memory_reason(*device); !reason.empty()) {
      throw Error(Status::unavailable, "options.flags: no memory of the host: " + reason);
    }
    // A machine without NUMA has node 0.
    const int node =
        placement.node == Placement::kNearest ? std::max(node_of(*device), 0) : placement.node;
    location = {CU_MEM_LOCATION_TYPE_HOST_NUMA, node};
  }

  Device::reclaim();
  const ContextGuard current(*device, ContextGuard::Capture::relaxed);
  std::shared_ptr<Allocation> made(new Allocation(device, bytes));
  made->on_host_ = placement.on_host;
  const std::string place =
      made->on_host_ ? format("NUMA node %d", location.id) : format("device %d", device->ordinal());
  made->has_fabric_ = !made->on_host_ && fabric_reason(*device).empty();

  // The size is a multiple of the driver's granularity, and of the placement's unit.
  const CUmemAllocationProp prop = properties(*device, location, made->has_fabric_);
  size_t unit = 0;
  driver.require(
      driver.cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
      "cuMemGetAllocationGranularity");
  if (placement.page_bytes > unit) {
    throw Error(Status::unavailable,
        format("options.page_bytes: the driver has pages of %zu bytes on %s, not of %zu", unit,
            place.c_str(), placement.page_bytes));
  }
  made->page_bytes_ = unit;
  // Granularities are powers of two.
  if (unit != 0 && !made->on_host_) unit = std::lcm(unit, placement.unit);
  if (unit == 0 || bytes > SIZE_MAX - unit) {
    throw Error(Status::out_of_memory, format("%zu bytes are more than a device holds", bytes));
  }
  made->mapped_ = (bytes + unit - 1) / unit * unit;

  made->properties_ = prop;
  made->make();
  made->map(placement.alignment > made->page_bytes_ ? placement.alignment : 0);

  driver.require(driver.cuMemsetD32Async(made->address_, 0, made->mapped_ / 4, device->stream()),
      "cuMemsetD32Async");
  driver.require(driver.cuStreamSynchronize(device->stream()), "cuStreamSynchronize");
  return made;
}

std::shared_ptr<Allocation> Allocation::import(const std::shared_ptr<Device>& device, Fd fd,
    const BlockExtent& extent, Access access, Descriptor descriptor) {
  const ContextGuard current(*device, ContextGuard::Capture::relaxed);
  std::shared_ptr<Allocation> made(new Allocation(device, extent.bytes));
  made->mapped_ = extent.mapped;
  made->offset_ = extent.offset;
  made->on_host_ = extent.on_host != 0;
  made->access_ = access;
  made->is_imported_ = true;
  made->keeps_descriptor_ = descriptor == Descriptor::keep;
  made->take_handle(std::move(fd), extent);
  made->map(0, true);
  return made;
}

// Takes the handle of memory that another process shared.
void Allocation::take_handle(Fd fd, const BlockExtent& extent) {
  const Driver& driver = device_->driver();
  std::string why = extent.fabric == FabricHandle{} ? "its rank has sent no fabric handle"
                                                    : fabric_reason(*device_);
  if (why.empty()) {
    FabricHandle handle = extent.fabric;
    const CUresult result =
        driver.cuMemImportFromShareableHandle(&handle_, &handle, CU_MEM_HANDLE_TYPE_FABRIC);
    has_handle_ = result == CUDA_SUCCESS;
    if (!has_handle_) {
      why = failed(driver, "cuMemImportFromShareableHandle", result);
      learn_fabric(*device_, why);
    }
  }
  if (!has_handle_ && !fd) {
    throw Error(Status::unavailable,
        format("memory of a rank on another host of the NVLink domain cannot be mapped: %s; with "
               "SYMM_FABRIC=0 each host is a machine of its own",
            why.c_str()));
  }

  if (!has_handle_) import_by_descriptor(&handle_, fd);
  has_handle_ = true;
  if (keeps_descriptor_) fd_ = std::move(fd);
}

void Allocation::import_by_descriptor(CUmemGenericAllocationHandle* handle, const Fd& fd) const {
  const Driver& driver = device_->driver();
  driver.require(driver.cuMemImportFromShareableHandle(handle,
                     reinterpret_cast<void*>(static_cast<intptr_t>(fd.get())),
                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
      "cuMemImportFromShareableHandle",
      [&] { return format("%zu bytes into device %d", mapped_, device_->ordinal()); });
}

std::shared_ptr<Allocation> Allocation::import_parts(
    const std::shared_ptr<Device>& device, const std::vector<Fd>& fds, const BlockExtent& extent) {
  if (extent.mapped % fds.size() != 0) {
    throw Error(Status::peer_failed,
        format("a peer sent a block of %lu bytes in %zu equal parts", extent.mapped, fds.size()));
  }

  const ContextGuard current(*device, ContextGuard::Capture::relaxed);
  std::shared_ptr<Allocation> made(new Allocation(device, extent.bytes));
  made->mapped_ = extent.mapped;
  made->offset_ = extent.offset;
  made->is_imported_ = true;
  made->import_by_descriptor(&made->handle_, fds[0]);
  made->has_handle_ = true;

  made->more_handles_.reserve(fds.size() - 1);
  for (size_t i = 1; i < fds.size(); ++i) {
    CUmemGenericAllocationHandle handle = 0;
    made->import_by_descriptor(&handle, fds[i]);
    made->more_handles_.push_back(handle);
  }
  made->map(0, true);
  return made;
}

std::shared_ptr<Allocation> Allocation::adopt(
    const std::shared_ptr<Device>& device, ExternalAllocation& foreign, size_t bytes) {
  Device::reclaim();
  const ContextGuard current(*device, ContextGuard::Capture::relaxed);
  const bool whole = bytes == ShareableMemory::kWhole;
  const ExternalAllocation::Range range = foreign.range(*device);
  foreign.require_whole(range);
  std::vector<ExternalAllocation> behind = foreign.behind(*device, range, bytes);

  std::shared_ptr<Allocation> made(new Allocation(device, whole ? range.bytes : bytes));
  made->more_handles_.reserve(behind.size());
  made->mapped_ = range.bytes * (1 + behind.size());
  made->offset_ = whole ? 0 : range.offset;
  made->address_ = range.base;
  made->owners_address_ = made->data();
  made->handle_ = foreign.take();
  made->has_handle_ = true;
  for (ExternalAllocation& one : behind) {
    made->more_handles_.push_back(one.take());
  }
  if (!whole) made->map();
  return made;
}

// The driver tells the handle by which an address was mapped. While this object holds its own
// handle, no other memory can have the same number. An owner that grows in place may unmap any part
// by itself.
bool Allocation::still_at_owner() const noexcept {
  if (owners_address_ == nullptr) return false;
  const Driver& driver = device_->driver();
  const auto is_at = [&](const std::byte* address, CUmemGenericAllocationHandle ours) {
    CUmemGenericAllocationHandle handle = 0;
    if (driver.cuMemRetainAllocationHandle(&handle, const_cast<std::byte*>(address)) !=
        CUDA_SUCCESS) {
      return false;
    }
    driver.cuMemRelease(handle);
    return handle == ours;
  };

  if (!is_at(owners_address_, handle_)) return false;
  const std::byte* part = owners_address_ - offset_;
  return std::all_of(more_handles_.begin(), more_handles_.end(), [&](auto handle) {
    part += part_bytes();
    return is_at(part, handle);
  });
}

std::string Allocation::host_memory_reason(const Device& device) {
  if (device.attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) != 0) {
    return "";
  }
  return "the driver offers none that can be shared "
         "(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)";
}

std::string Allocation::dmabuf_reason(const Device& device) {
  if (const std::string missing = device.driver().without("cuMemGetHandleForAddressRange");
      !missing.empty()) {
    return missing;
  }
  return device.attribute(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) == 0
             ? "the device has no DMA-BUF export"
             : "";
}

int Allocation::node_of(const Device& device) {
  return device.attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1);
}

Fd Allocation::export_dmabuf(size_t offset, size_t bytes) const {
  if (const std::string reason = dmabuf_reason(*device_); !reason.empty()) {
    throw Error(Status::unavailable, "buffer: cannot be exported as DMA-BUF: " + reason);
  }

  const size_t first = offset_ + offset;
  if (first / part_bytes() != (first + bytes - 1) / part_bytes()) {
    throw Error(Status::unavailable,
        format("buffer: %zu bytes at %zu lie in several adopted allocations of %zu bytes, and a "
               "DMA-BUF is of one",
            bytes, offset, part_bytes()));
  }

  const Driver& driver = device_->driver();
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  const ClosedStreams held;
  int raw = -1;
  const CUresult result = driver.cuMemGetHandleForAddressRange(
      &raw, address() + offset, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  const auto what = [&] { return format("%zu bytes at %zu", bytes, offset); };
  if (result == CUDA_ERROR_NOT_SUPPORTED) {
    throw Error(Status::unavailable,
        format("buffer: cannot be exported as DMA-BUF: cuMemGetHandleForAddressRange: %s: %s",
            driver.text(result).c_str(), what().c_str()));
  }
  driver.require(result, "cuMemGetHandleForAddressRange", what);

  Fd fd(raw);
  if (!fd || fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0) {
    throw system_error(errno, "fcntl(F_SETFD)", "DMA-BUF");
  }
  return fd;
}

Fd Allocation::exported(CUmemGenericAllocationHandle handle) const {
  // CUDA_ERROR_INVALID_VALUE on an H200 (2026-11-30), whether the exporter lives or not.
  if (is_imported_) {
    throw Error(Status::unsupported,
        "memory of another process is not shared again: the driver exports no descriptor of it");
  }

  const Driver& driver = device_->driver();
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  const ClosedStreams held;
  int raw = -1;
  driver.require(driver.cuMemExportToShareableHandle(
                     &raw, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
      "cuMemExportToShareableHandle");
  Fd fd(raw);
  if (!fd) throw system_error(errno, "fcntl(F_DUPFD_CLOEXEC)");
  return fd;
}

int Allocation::fd() const {
  if (!fd_) fd_ = exported(handle_);
  return fd_.get();
}

ShareableHandle Allocation::share() const {
  ShareableHandle shared{extent(), fd(), {}};
  for (const CUmemGenericAllocationHandle handle : more_handles_) {
    shared.more_fds.push_back(exported(handle));
  }
  if (!has_fabric_) return shared;

  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  device_->driver().require(device_->driver().cuMemExportToShareableHandle(
                                &shared.extent.fabric, handle_, CU_MEM_HANDLE_TYPE_FABRIC, 0),
      "cuMemExportToShareableHandle", "a fabric handle");
  return shared;
}

// Releases the mapping, the addresses and the handle, in this order. Failures are not reported: the
// context may be in error, or the driver may be shutting down.
Allocation::~Allocation() {
  device_->defer(
      [&driver = device_->driver(), address = address_, mapped = mapped_,
          is_reserved = is_reserved_, bytes = part_bytes(), parts = mapped_parts_, handle = handle_,
          has_handle = has_handle_, more = std::move(more_handles_), kept = kept_] {
        for (size_t part = 0; part < parts; ++part) {
          driver.cuMemUnmap(address + part * bytes, bytes);
        }
        if (is_reserved) driver.cuMemAddressFree(address, mapped);
        if (has_handle) driver.cuMemRelease(handle);
        for (const CUmemGenericAllocationHandle one : more) {
          driver.cuMemRelease(one);
        }
        if (kept != nullptr) driver.cuMemFreeHost(kept);
      },
      all_uses_recorded());
}

// The driver has no call that maps in the place of another mapping. Between the two calls the
// addresses lead nowhere, so nothing may be at work there. If the fresh memory cannot be mapped,
// the memory that was there is mapped again: addresses that lead nowhere would cost the context.
void Allocation::show(const Block& other) {
  const auto& fresh = dynamic_cast<const Allocation&>(other);
  if (fresh.mapped_ != mapped_ || fresh.offset_ != offset_ || parts() != 1 || fresh.parts() != 1) {
    throw Error(Status::internal, "a pad that is mapped anew has another layout");
  }

  const Driver& driver = device_->driver();
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  CUmemGenericAllocationHandle handle = 0;
  driver.require(
      driver.cuMemRetainAllocationHandle(&handle, fresh.start()), "cuMemRetainAllocationHandle");
  unmap_parts();
  std::swap(handle_, handle);
  try {
    map_parts(true);
  } catch (...) {
    unmap_parts();
    std::swap(handle_, handle);
    driver.cuMemRelease(handle);
    map_parts(true);
    throw;
  }
  driver.cuMemRelease(handle);
}

// Takes the memory away from the addresses. Failures are not reported, as in the destructor.
void Allocation::unmap_parts() noexcept {
  if (mapped_parts_ != 0) device_->driver().cuMemUnmap(address_, mapped_);
  mapped_parts_ = 0;
}

// Gives the memory up, and keeps the addresses.
void Allocation::let_go() noexcept {
  unmap_parts();
  fd_.reset();
  if (has_handle_) device_->driver().cuMemRelease(handle_);
  has_handle_ = false;
}

void Allocation::suspend(bool keep, void* stream) {
  const Driver& driver = device_->driver();
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  auto* const order = static_cast<CUstream>(stream);
  void* copy = nullptr;
  if (keep) {
    driver.require(driver.cuMemHostAlloc(&copy, bytes_, 0), "cuMemHostAlloc",
        [&] { return format("%zu bytes for the contents of a buffer", bytes_); });
  }

  try {
    if (keep) {
      driver.require(
          driver.cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(copy), address(), bytes_, order),
          "cuMemcpyAsync");
    }
    driver.require(driver.cuStreamSynchronize(order), "cuStreamSynchronize");
  } catch (...) {
    if (keep) driver.cuMemFreeHost(copy);
    throw;
  }
  kept_ = copy;
  let_go();
}

void Allocation::resume(void* stream) {
  const Driver& driver = device_->driver();
  Device::reclaim();
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  auto* const order = static_cast<CUstream>(stream);
  try {
    make();
    map_parts(false);
    driver.require(kept_ != nullptr ? driver.cuMemcpyAsync(address(),
                                          reinterpret_cast<CUdeviceptr>(kept_), bytes_, order)
                                    : driver.cuMemsetD32Async(address_, 0, mapped_ / 4, order),
        kept_ != nullptr ? "cuMemcpyAsync" : "cuMemsetD32Async");
    driver.require(driver.cuStreamSynchronize(order), "cuStreamSynchronize");
  } catch (...) {
    let_go();
    throw;
  }

  if (kept_ != nullptr) driver.cuMemFreeHost(std::exchange(kept_, nullptr));
}

void Allocation::unmap() {
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  let_go();
}

void Allocation::remap(Fd fd, const BlockExtent& extent) {
  const bool is_alike = extent.mapped == mapped_ && extent.bytes == bytes_ &&
                        extent.offset == offset_ && (extent.on_host != 0) == on_host_;
  if (!is_alike) throw Error(other_size(extent.bytes, bytes_));
  if (BorrowedAllocation::has_handle(fd)) {
    throw Error(Status::unsupported,
        "token: the memory is of cudaMalloc, which the driver maps at no address that was kept");
  }

  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  try {
    take_handle(std::move(fd), extent);
    map_parts(true);
  } catch (...) {
    let_go();
    throw;
  }
}

std::shared_ptr<Block> DeviceMemory::allocate(size_t bytes, const Placement& placement) {
  return Allocation::create(device_, bytes, placement);
}

std::shared_ptr<Block> DeviceMemory::adopt(const void* pointer, size_t bytes) {
  std::optional<ExternalAllocation> foreign = ExternalAllocation::at(pointer);
  if (!foreign && bytes == kWhole) return BorrowedAllocation::around(device_, pointer);
  if (!foreign) refuse_to_adopt(pointer);
  if (const int on = foreign->require_shareable(); on != device_->handle()) {
    throw Error(Status::invalid_argument,
        format("pointer: lies on device %d, the group works on device %d", on, device_->ordinal()));
  }
  if (bytes != kWhole && reinterpret_cast<uintptr_t>(pointer) % kAdoptedAlignment != 0) {
    throw Error(Status::invalid_argument,
        format("pointer: %p is not a multiple of %zu", pointer, kAdoptedAlignment));
  }
  return Allocation::adopt(device_, *foreign, bytes);
}

std::shared_ptr<Block> DeviceMemory::import(Fd fd, const BlockExtent& extent, Access access) {
  if (BorrowedAllocation::has_handle(fd)) {
    return BorrowedAllocation::import(device_, std::move(fd), extent, access);
  }
  return Allocation::import(device_, std::move(fd), extent, access, of_imports_);
}

// Says what kind of memory this is, which was not mapped by cuMemMap.
void DeviceMemory::refuse_to_adopt(const void* pointer) const {
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  const bool is_known = device_->driver().cuMemGetAddressRange(
                            &base, &bytes, reinterpret_cast<CUdeviceptr>(pointer)) == CUDA_SUCCESS;
  throw Error(Status::invalid_argument,
      format("pointer: %p %s, and only memory of cuMemCreate can be adopted", pointer,
          is_known ? "was allocated by cudaMalloc or the like"
                   : "is not mapped memory of a device"));
}
}  // namespace symm::cuda
