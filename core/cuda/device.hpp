// SPDX-License-Identifier: Apache-2.0
//
// One GPU: its primary context, which symm shares with whatever else runs in the process, and what it can do.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "core/cuda/driver.hpp"

namespace symm::cuda {

using Uuid = std::array<std::byte, 16>;

class Device {
 public:
  // Retains the primary context for as long as the object lives. Throws Error(invalid_argument) for an ordinal out of range.
  static std::shared_ptr<Device> open(int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const noexcept { return driver_; }
  CUdevice handle() const noexcept { return device_; }
  int ordinal() const noexcept { return ordinal_; }
  CUcontext context() const noexcept { return context_; }
  const Uuid& uuid() const noexcept { return uuid_; }
  int multiprocessors() const noexcept { return multiprocessors_; }
  // `unknown` if the driver does not know it.
  int attribute(int which, int unknown = 0) const noexcept;
  CUstream stream() const noexcept { return stream_; }  // of our own, for what must not wait for the user's

  // Work was issued on `stream`, outside of a capture. Returns an event behind it, which stays the stream's.
  CUevent record_use(CUstream stream);
  // Release never waits, but kernels may still use what is released. Runs `work` now if all that was issued has ended, else when
  // an allocation or release finds that it has.
  void defer(std::function<void()> work) noexcept;
  void reclaim() noexcept;

 private:
  explicit Device(const Driver& driver) : driver_(driver) {}
  bool idle() noexcept;    // mutex held, context current
  bool settle() noexcept;  // run what was put off; false if it has to wait

  const Driver& driver_;
  CUdevice device_ = 0;
  int ordinal_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  Uuid uuid_{};
  int multiprocessors_ = 0;
  std::mutex mutex_;
  std::map<CUstream, CUevent> events_;
  std::vector<std::function<void()>> deferred_;
};

std::string text_of(const Uuid& uuid);  // "GPU-..." as nvidia-smi writes it

// Makes a device's context current on this thread for a scope, and lets calls through that a stream capture elsewhere in the
// process would forbid (allocation, synchronisation of our own stream): they have nothing to do with what is captured.
class ContextGuard {
 public:
  enum class Capture {
    as_it_is,
    relaxed
  };
  explicit ContextGuard(const Device& device, Capture capture = Capture::as_it_is);
  // For release, which goes on if the context cannot be made current any more.
  ContextGuard(const Device& device, std::nothrow_t) noexcept;
  ~ContextGuard();
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  const Device& device_;
  bool pushed_ = false;
  bool relaxed_ = false;
  int mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace symm::cuda
