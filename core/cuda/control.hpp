// A rank's control block (kernels/cuda/args.hpp) and the page of host memory by which
// kernels and host tell each other of trouble.
#pragma once

#include "core/backend/plan_table.hpp"
#include "core/cuda/allocation.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/layout.hpp"
#include "kernels/cuda/tuning.hpp"

namespace symm::cuda {
Tuning tuning_of(const PlanValues& values);

// Zero, except for what the push kernels poll, which is all ones at rest.
std::shared_ptr<Allocation> create_control(
    const std::shared_ptr<Device>& device, int size, const Layout& layout);

// What a kernel that gave up has written, in words.
Failure failure_of(const ErrorRecord& record, const TransportContext& context, int device);

// Pinned host memory that the device can reach.
class ErrorMailbox : public std::enable_shared_from_this<ErrorMailbox> {
 public:
  explicit ErrorMailbox(std::shared_ptr<Device> device);
  ~ErrorMailbox();
  ErrorMailbox(ErrorMailbox&&) = delete;

  uint64_t record_on_device() const noexcept { return address_; }
  bool has_record() const noexcept;
  const ErrorRecord& record() const noexcept;
  // The word at a device address, as it is now; past whatever the user's streams do.
  // Any thread; the context is current.
  uint64_t read(CUdeviceptr word);
  // Have the words stored that kernels look at (ControlWords::abort and departed, and
  // spoilt of the block with the stages), from a stream of our own, past whatever the
  // user's streams do. Any thread; waits for nobody, as the driver may: another thread
  // calls it, which keeps the blocks until then.
  void tell(const std::shared_ptr<Allocation>& control, const std::shared_ptr<Allocation>& stages,
      bool abort, uint32_t departed) noexcept;

 private:
  void store(CUdeviceptr control, CUdeviceptr stages, bool abort) noexcept;
  std::shared_ptr<Device> device_;
  std::byte* host_ = nullptr;
  CUdeviceptr address_ = 0;
  CUstream stream_ = nullptr;
  std::mutex reading_;
  std::atomic<uint32_t> abort_{0}, departed_{0};  // what was told so far
};

// The memories of a group, in this rank's control
// block, where kernels look up those that peers name.
class MemoryTable {
 public:
  MemoryTable(std::shared_ptr<Device> device, CUdeviceptr address)
      : device_(std::move(device)),
        address_(address),
        entries_(static_cast<size_t>(kMaxMemories)) {}
  void add(const MemoryEntry& entry);
  void erase(uint64_t id) noexcept;

 private:
  void write(size_t index, const MemoryEntry& entry);
  std::shared_ptr<Device> device_;
  CUdeviceptr address_;
  std::mutex mutex_;
  std::vector<MemoryEntry> entries_;
};
}  // namespace symm::cuda
