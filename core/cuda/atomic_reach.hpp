// The memory on which atomic operations of this rank's kernels are single steps. On memory of
// the device itself they always are. On memory of a peer, or of the host, they need a link that
// carries atomic operations, as NVLink does: without it the operation becomes a read and a
// write, between which other accesses can come.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/cuda/device.hpp"

namespace symm::cuda {
class AtomicReach {
 public:
  explicit AtomicReach(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  // Why an atomic operation on memory of a GPU of this host is not a single step; "" if it is one.
  // May be called by any thread, also while a stream is captured.
  std::string why_not(const Uuid& gpu);
  // The answer for memory of the host, which the host may change, too.
  std::string why_not_on_host() const;

 private:
  std::string ask(const Uuid& gpu) const;

  const std::shared_ptr<Device> device_;
  std::mutex mutex_;
  // The answers so far, for other devices.
  std::map<Uuid, std::string> known_;
};
}  // namespace symm::cuda
