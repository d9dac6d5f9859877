// Memory that can be shared: created by cuMemCreate on a device or on a node of the host, imported
// from a peer, or adopted from another library. The driver owns its lifetime: it is freed when the
// last mapping and the last handle are gone, whichever process died in between.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/suspendable.hpp"
#include "core/base/deadline.hpp"
#include "core/base/fd.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/external_allocation.hpp"

namespace symm::cuda {
class Allocation final : public Block, public Suspendable {
 public:
  // Zeroed when the call returns. Memory on a NUMA node of the host (Placement::kNearest: the
  // device's) is for the device and the host. Throws Error(unavailable) with the reason if there
  // can be none, or no pages of that size.
  static std::shared_ptr<Allocation> create(
      const std::shared_ptr<Device>& device, size_t bytes, const Placement& placement = {});
  static std::shared_ptr<Allocation> import(const std::shared_ptr<Device>& device, Fd fd,
      const BlockExtent& extent, Access access = Access::read_write,
      Descriptor descriptor = Descriptor::close);
  // Memory of several allocations of one size, mapped one behind the other.
  static std::shared_ptr<Allocation> import_parts(
      const std::shared_ptr<Device>& device, const std::vector<Fd>& fds, const BlockExtent& extent);
  // A piece of another library's memory, mapped once more, so that it stays when its owner unmaps
  // it: of the allocation `foreign`, and of those behind it; or ShareableMemory::kWhole of that
  // one, where it is mapped. Takes the references.
  static std::shared_ptr<Allocation> adopt(
      const std::shared_ptr<Device>& device, ExternalAllocation& foreign, size_t bytes);
  ~Allocation() override;

  std::byte* data() const noexcept override { return reinterpret_cast<std::byte*>(address()); }
  std::byte* start() const noexcept override { return reinterpret_cast<std::byte*>(address_); }
  CUdeviceptr address() const noexcept { return address_ + offset_; }
  size_t size() const noexcept override { return bytes_; }
  size_t mapped() const noexcept override { return mapped_; }
  size_t page_bytes() const noexcept override { return page_bytes_; }
  CUmemGenericAllocationHandle handle() const noexcept { return handle_; }
  // How many allocations it lies in, all of one size.
  size_t parts() const noexcept { return 1 + more_handles_.size(); }
  // Exported on first use; never -1.
  int fd() const;
  BlockExtent extent() const noexcept { return {bytes_, mapped_, offset_, on_host_ ? 1U : 0U, {}}; }
  ShareableHandle share() const override;
  void will_not_be_shared() noexcept override { fd_.reset(); }
  const std::byte* owners_address() const noexcept override { return owners_address_; }
  bool still_at_owner() const noexcept override;
  Fd export_dmabuf(size_t offset, size_t bytes) const override;
  bool record_use(void* stream) override { return device_->record_use(stream); }
  void show(const Block& other) override;
  void require_unused(Deadline deadline) override { device_->require_idle(deadline); }
  // For memory that create() has made. The addresses stay reserved.
  void suspend(bool keep, void* stream) override;
  void resume(void* stream) override;
  // For memory that import() has mapped.
  void unmap() override;
  void remap(Fd fd, const BlockExtent& extent) override;

  // Why memory of this device has no fabric handles; "" if it has. The first call tries it.
  static std::string fabric_reason(const Device& device);
  // Why there is no memory of NUMA nodes for this device; "" if there is.
  static std::string host_memory_reason(const Device& device);
  // Why memory of this device cannot be exported as DMA-BUF; "" if it can.
  static std::string dmabuf_reason(const Device& device);
  // The nearest NUMA node; -1 if the driver knows none.
  static int node_of(const Device& device);

 private:
  Allocation(std::shared_ptr<Device> device, size_t bytes)
      : device_(std::move(device)), bytes_(bytes) {}
  void map(size_t alignment = 0, bool is_imported = false);
  void map_parts(bool is_imported);
  void unmap_parts() noexcept;
  void make();
  void let_go() noexcept;
  void take_handle(Fd fd, const BlockExtent& extent);
  Fd exported(CUmemGenericAllocationHandle handle) const;
  void import_by_descriptor(CUmemGenericAllocationHandle* handle, const Fd& fd) const;
  size_t part_bytes() const noexcept { return mapped_ / parts(); }

  std::shared_ptr<Device> device_;
  size_t bytes_;
  size_t mapped_ = 0;
  size_t page_bytes_ = 0;
  // The offset of data() in the mapping.
  size_t offset_ = 0;
  bool on_host_ = false;
  Access access_ = Access::read_write;  // of the device, and of the host if on_host_
  bool has_fabric_ = false;
  bool is_imported_ = false;
  bool keeps_descriptor_ = false;
  const std::byte* owners_address_ = nullptr;
  CUmemGenericAllocationHandle handle_ = 0;
  bool has_handle_ = false;
  // The handles of the allocations behind the first one.
  std::vector<CUmemGenericAllocationHandle> more_handles_;
  CUdeviceptr address_ = 0;
  bool is_reserved_ = false;
  size_t mapped_parts_ = 0;
  CUmemAllocationProp properties_{};  // of memory that was created here
  void* kept_ = nullptr;              // the contents while it is suspended, pinned
  mutable Fd fd_;
};

// The memory of a device, and of the host beside it, for rendezvous and for tokens.
class DeviceMemory final : public ShareableMemory {
 public:
  DeviceMemory(std::shared_ptr<Device> device, Descriptor of_imports)
      : device_(std::move(device)), of_imports_(of_imports) {}

  std::shared_ptr<Block> allocate(size_t bytes, const Placement& placement) override;
  std::shared_ptr<Block> adopt(const void* pointer, size_t bytes) override;
  using ShareableMemory::import;
  std::shared_ptr<Block> import(Fd fd, const BlockExtent& extent, Access access) override;
  std::shared_ptr<Block> import_parts(
      const std::vector<Fd>& fds, const BlockExtent& extent) override {
    return Allocation::import_parts(device_, fds, extent);
  }

 private:
  [[noreturn]] void refuse_to_adopt(const void* pointer) const;

  std::shared_ptr<Device> device_;
  const Descriptor of_imports_;
};
}  // namespace symm::cuda
