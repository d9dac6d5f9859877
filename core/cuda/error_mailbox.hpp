// The page of pinned host memory by which kernels and host tell each other of failures.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/backend/backend.hpp"
#include "core/base/error.hpp"
#include "core/cuda/allocation.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/tag_table.hpp"
#include "kernels/cuda/args.hpp"

namespace symm::cuda {
class ErrorMailbox : public std::enable_shared_from_this<ErrorMailbox> {
 public:
  // `is_large`: the control blocks are those of a large group.
  ErrorMailbox(std::shared_ptr<Device> device, bool is_large);
  ~ErrorMailbox();
  ErrorMailbox(ErrorMailbox&&) = delete;

  // The address at which a kernel that gives up writes its record.
  uint64_t record_on_device() const noexcept { return address_; }
  // The word of a control block that is not 0 when kernels are to leave.
  static CUdeviceptr abort_word(const Allocation& control) noexcept;
  bool has_record() const noexcept;
  const ErrorRecord& record() const noexcept;

  // The word at a device address as it is now, past whatever the user's streams do. May be called
  // by any thread; the context must be current.
  uint64_t read(CUdeviceptr word, size_t bytes = sizeof(uint64_t));

  // Stores the words that kernels look at (ControlWords::abort and departed, and spoilt in the
  // block that has the stages), from a stream of symm's own, past whatever the user's streams do.
  // May be called by any thread. Waits for nothing, though the driver may wait: another thread
  // calls it, which keeps the blocks until then.
  void tell(const std::shared_ptr<Allocation>& control, const std::shared_ptr<Allocation>& stages,
      bool abort, const RankSetOf<kMaxRanks>& departed) noexcept;

 private:
  void store(CUdeviceptr control, CUdeviceptr stages, bool abort) noexcept;

  std::shared_ptr<Device> device_;
  // Words of the set of ranks that have left, in a control block.
  const size_t departed_words_;
  std::byte* host_ = nullptr;
  CUdeviceptr address_ = 0;
  CUstream stream_ = nullptr;
  std::mutex reading_;
  // The failures that were told so far.
  std::atomic<uint32_t> abort_{0};
  std::atomic<uint32_t> departed_[RankSetOf<kMaxRanks>::kWords]{};
};

// Puts the record of a kernel that gave up into words.
Failure failure_of(
    const ErrorRecord& record, const TransportContext& context, int device, const TagTable& tags);
}  // namespace symm::cuda
