// Memory of cudaMalloc that other processes map: the driver gives no descriptor of it, but a handle
// of 64 bytes, which stands for the whole allocation and is good while its maker lives and has not
// freed it. The handle travels in a sealed file, in the place of the memory's descriptor.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "core/backend/backend.hpp"
#include "core/backend/borrowed.hpp"
#include "core/base/fd.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"

namespace symm::cuda {
class BorrowedAllocation final : public Block, public Borrowed {
 public:
  // The device of memory at an address that the driver knows, and that lies on a device.
  static std::optional<int> device_of(const void* pointer);
  // The allocation around an address of this process. Throws Error(invalid_argument) if the driver
  // gives no handle of it.
  static std::shared_ptr<BorrowedAllocation> around(
      const std::shared_ptr<Device>& device, const void* pointer);

  // Whether a descriptor is that of a file with a handle.
  static bool has_handle(const Fd& fd);
  // Maps the memory of another process. Throws Error(unsupported) for memory that is to be read
  // only, which such a mapping cannot be.
  static std::shared_ptr<BorrowedAllocation> import(
      const std::shared_ptr<Device>& device, Fd fd, const BlockExtent& extent, Access access);
  ~BorrowedAllocation() override;

  std::byte* data() const noexcept override { return reinterpret_cast<std::byte*>(address_); }
  size_t size() const noexcept override { return bytes_; }
  ShareableHandle share() const override { return {{bytes_, bytes_, 0}, fd_.get()}; }
  const std::byte* owners_address() const noexcept override {
    return is_imported_ ? nullptr : data();
  }
  bool still_at_owner() const noexcept override;
  bool record_use(void* stream) override { return device_->record_use(stream); }

 private:
  BorrowedAllocation(std::shared_ptr<Device> device, Fd fd, size_t bytes)
      : device_(std::move(device)), fd_(std::move(fd)), bytes_(bytes) {}

  std::shared_ptr<Device> device_;
  Fd fd_;  // the file with the handle
  const size_t bytes_;
  CUdeviceptr address_ = 0;
  // The driver's number of the allocation, which no later one at the address has.
  unsigned long long id_ = 0;
  bool is_imported_ = false;
};
}  // namespace symm::cuda
