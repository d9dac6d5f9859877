// Memory that can be shared: created by cuMemCreate on a device or on
// a node of the host, imported from a peer, or adopted from another
// library. The driver owns its lifetime: it is given back when the
// last mapping and the last handle are gone, whoever died in between.
#pragma once

#include "core/backend/backend.hpp"
#include "core/cuda/external_allocation.hpp"

namespace symm::cuda {
class Allocation final : public Block {
 public:
  // Zeroed when the call returns. On a NUMA node of the host (Placement::kNearest: the
  // device's) it is for the device and the host. Throws Error(unavailable) with the
  // reason where that, or pages of that size, cannot be had.
  static std::shared_ptr<Allocation> create(
      const std::shared_ptr<Device>& device, size_t bytes, const Placement& placement = {});
  static std::shared_ptr<Allocation> import(
      const std::shared_ptr<Device>& device, Fd fd, const BlockExtent& extent);
  // Of somebody else's allocation, to which one more reference is
  // ours: a piece, mapped once more, so that it stays when its owner
  // unmaps it; or ShareableMemory::kWhole, where it is mapped.
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
  int fd() const;  // exported on first use, -1 never
  BlockExtent extent() const noexcept { return {bytes_, mapped_, offset_, on_host_ ? 1U : 0U, {}}; }
  ShareableHandle share() const override;
  void will_not_be_shared() noexcept override { fd_.reset(); }
  const std::byte* owners_address() const noexcept override { return owners_address_; }
  bool still_at_owner() const noexcept override;
  Fd export_dmabuf(size_t offset, size_t bytes) const override;
  bool record_use(void* stream) override { return device_->record_use(stream); }
  // Why no fabric handle can be had for memory of this
  // device; "" if one can. The first to ask has it tried.
  static std::string fabric_reason(const Device& device);
  // Why there is no memory of NUMA nodes for this
  // device, or no export as DMA-BUF; "" if there is.
  static std::string host_memory_reason(const Device& device);
  static std::string dmabuf_reason(const Device& device);
  static int node_of(const Device& device);  // the nearest; -1 if the driver knows none
 private:
  Allocation(std::shared_ptr<Device> device, size_t bytes)
      : device_(std::move(device)), bytes_(bytes) {}
  void map(size_t alignment = 0);

  std::shared_ptr<Device> device_;
  size_t bytes_;
  size_t mapped_ = 0;
  size_t page_bytes_ = 0;
  size_t offset_ = 0;  // of data() in what is mapped
  bool on_host_ = false;
  bool has_fabric_ = false;
  const std::byte* owners_address_ = nullptr;
  CUmemGenericAllocationHandle handle_ = 0;
  bool has_handle_ = false;
  CUdeviceptr address_ = 0;
  bool is_reserved_ = false;
  bool is_mapped_ = false;
  mutable Fd fd_;
};

// The memory of a device, and of the host beside it, for rendezvous and for tokens.
class DeviceMemory final : public ShareableMemory {
 public:
  explicit DeviceMemory(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  std::shared_ptr<Block> allocate(size_t bytes, const Placement& placement) override;
  std::shared_ptr<Block> adopt(const void* pointer, size_t bytes) override;
  std::shared_ptr<Block> import(Fd fd, const BlockExtent& extent) override {
    return Allocation::import(device_, std::move(fd), extent);
  }

 private:
  [[noreturn]] void refuse_to_adopt(const void* pointer) const;

  std::shared_ptr<Device> device_;
};
}  // namespace symm::cuda
