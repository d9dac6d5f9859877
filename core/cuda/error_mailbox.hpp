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
  explicit ErrorMailbox(std::shared_ptr<Device> device);
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

  // Tells kernels that wait (kernels/cuda/args.hpp: Told), past whatever the user's streams and the
  // driver do. After an abort the words of the control blocks that kernels read without a wait,
  // ControlWords::abort and spoilt, follow by a stream of symm's own. There the driver may wait, so
  // another thread calls it, which keeps the blocks until then. May be called by any thread.
  void tell(const std::shared_ptr<Allocation>& control, const std::shared_ptr<Allocation>& stages,
      bool abort, const RankSetOf<kMaxRanks>& departed) noexcept;

 private:
  void store(const Allocation& control, const Allocation& stages) noexcept;

  std::shared_ptr<Device> device_;
  std::byte* host_ = nullptr;
  CUdeviceptr address_ = 0;
  CUstream stream_ = nullptr;
  std::mutex reading_;
};

// Puts the record of a kernel that gave up into words.
Failure failure_of(
    const ErrorRecord& record, const TransportContext& context, int device, const TagTable& tags);
}  // namespace symm::cuda
