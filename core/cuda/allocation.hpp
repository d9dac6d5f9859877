// SPDX-License-Identifier: Apache-2.0
//
// Device memory that can be shared: created by cuMemCreate, or imported from a peer. The driver owns its lifetime: it is given
// back when the last mapping and the last handle are gone, whoever died in between.
#pragma once

#include "core/backend.hpp"
#include "core/cuda/device.hpp"

namespace symm::cuda {

class Allocation final : public Block {
 public:
  // Zeroed (each 32-bit word is `fill`) when the call returns.
  static std::shared_ptr<Allocation> create(const std::shared_ptr<Device>& device, size_t bytes, uint32_t fill = 0);
  static std::shared_ptr<Allocation> import(const std::shared_ptr<Device>& device, Fd fd, size_t bytes, size_t mapped);
  // Memory that somebody else has mapped at `address`: one more reference, `handle`, is ours. It is not unmapped with us.
  static std::shared_ptr<Allocation> adopt(const std::shared_ptr<Device>& device, CUmemGenericAllocationHandle handle,
                                           CUdeviceptr address, size_t bytes);
  ~Allocation() override;

  std::byte* data() const noexcept override { return reinterpret_cast<std::byte*>(address_); }
  CUdeviceptr address() const noexcept { return address_; }
  size_t size() const noexcept override { return bytes_; }
  size_t mapped() const noexcept { return mapped_; }
  CUmemGenericAllocationHandle handle() const noexcept { return handle_; }
  int fd() const;  // exported on first use, -1 never
  void will_not_be_shared() noexcept override { fd_.reset(); }
  // Why no fabric handle can be had for memory of this device; "" if one can. Known after the first allocation.
  static std::string fabric_reason(const Device& device);

 private:
  Allocation(std::shared_ptr<Device> device, size_t bytes) : device_(std::move(device)), bytes_(bytes) {}
  void map();

  std::shared_ptr<Device> device_;
  size_t bytes_;
  size_t mapped_ = 0;
  CUmemGenericAllocationHandle handle_ = 0;
  bool has_handle_ = false;
  CUdeviceptr address_ = 0;
  bool is_reserved_ = false;
  bool is_mapped_ = false;
  mutable Fd fd_;
};

}  // namespace symm::cuda
