// One GPU: its primary context, which symm shares with everything else that runs in the process,
// and what the GPU can do.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/base/per_process.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/stream_uses.hpp"

namespace symm::cuda {
using Uuid = std::array<std::byte, 16>;

// Objects of which this process has one for each device, made by make(), for as long as they are
// in use.
template <class T>
struct ByOrdinal {
  std::mutex mutex;
  std::map<int, std::weak_ptr<T>> known;

  template <class Make>
  static std::shared_ptr<T> get(int ordinal, const Make& make) {
    ByOrdinal& all = PerProcess<ByOrdinal>::current();
    const std::lock_guard lock(all.mutex);
    std::weak_ptr<T>& entry = all.known[ordinal];
    std::shared_ptr<T> found = entry.lock();
    if (!found) {
      found = make();
      entry = found;
    }
    return found;
  }
};

class Device {
 public:
  // Retains the primary context for as long as the object lives. Throws
  // Error(invalid_argument) for an ordinal out of range.
  static std::shared_ptr<Device> open(int ordinal);
  ~Device();
  Device(Device&&) = delete;

  const Driver& driver() const noexcept { return driver_; }
  CUdevice handle() const noexcept { return device_; }
  int ordinal() const noexcept { return ordinal_; }
  CUcontext context() const noexcept { return context_; }
  const Uuid& uuid() const noexcept { return uuid_; }
  int multiprocessors() const noexcept { return multiprocessors_; }
  // `unknown` if the driver does not know the attribute.
  int attribute(int which, int unknown = 0) const noexcept;
  // A stream of symm's own, for what must not wait for the user's streams.
  CUstream stream() const noexcept { return stream_; }
  // The uses by all objects of this process that work on the device.
  StreamUses& uses() const noexcept { return *uses_; }

  // Does `work`, which releases a resource. A release never waits, but kernels may still use
  // the resource: symm's, the caller's, a graph's. So `work` is done now if the device has
  // nothing to do; otherwise when an allocation or a release finds that all work that the
  // device had at this time is over, or, if `recorded`, that all recorded uses are over.
  template <class Work>
  void defer(const Work& work, bool recorded = false) noexcept {
    try {
      with_reserve([&] { put_off(work, recorded); });
    } catch (const std::bad_alloc&) {
      // Leaked, rather than freed under a kernel.
      return;
    }
    settle();
  }

  // Block::record_use() says what this does.
  bool record_use(void* stream);

  // A stream of symm's own that comes after everything that the device has to do now; null if the
  // driver does not tell that, or if a capture is under way.
  CUstream after_everything();
  // Waits until everything that the device has to do now is over, what background tasks have to
  // issue included, and no stream is captured. Throws Error(timeout).
  void require_idle(Deadline deadline);
  // A stream of symm's own that comes after `stream` and after all recorded uses.
  CUstream after_recorded(CUstream stream);

  // Does the work that was put off on all devices, as far as it is due. Does not load the driver.
  static void reclaim() noexcept;

 private:
  // Work that was put off goes in periods. Everything that is there when a period begins waits for
  // its end, because the period begins after all uses of what is released. What comes meanwhile
  // waits for the next period. So a device that never becomes idle does not keep it for ever.
  struct Releases {
    std::vector<std::function<void()>> next;
    std::vector<std::function<void()>> waiting;
    bool has_begun = false;
    // The period ends with this event; or, if `finishing` is not null, when a thread that waits
    // for the device has said so there.
    Event event;
    std::shared_ptr<std::atomic<int>> finishing;
  };
  enum Finishing { under_way, done, refused };

  explicit Device(const Driver& driver) : driver_(driver) {}
  void put_off(std::function<void()> work, bool recorded);
  void prepare_recorded();
  // For these the mutex is held, and the context current.
  bool begin(Releases& releases) noexcept;
  bool begin_to_finish(Releases& releases) noexcept;
  bool is_over(Releases& releases) noexcept;
  // Does the work that was put off; false if some has to wait.
  bool settle(Releases& releases) noexcept;
  bool settle() noexcept;

  const Driver& driver_;
  CUdevice device_ = 0;
  int ordinal_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  Uuid uuid_{};
  int multiprocessors_ = 0;
  std::shared_ptr<StreamUses> uses_;
  // A stream of symm's own that comes after all recorded uses.
  CUstream gate_ = nullptr;
  std::mutex mutex_;
  // Releases that wait for everything on the device, and those that wait for recorded uses.
  Releases everybodys_;
  Releases recorded_;
};

// "GPU-...", as nvidia-smi writes it.
std::string text_of(const Uuid& uuid);

// Makes a device's context current on this thread for a scope. A relaxed scope also lets calls
// through that a stream capture elsewhere in the process would forbid (allocation, synchronisation
// of symm's own stream): they have nothing to do with what is captured.
class ContextGuard {
 public:
  enum class Capture { as_it_is, relaxed };
  explicit ContextGuard(const Device& device, Capture capture = Capture::as_it_is);
  // For release, which goes on if the context cannot be made current any more.
  ContextGuard(const Device& device, std::nothrow_t) noexcept;
  ~ContextGuard();
  ContextGuard(ContextGuard&&) = delete;

 private:
  // The thread cannot be cancelled meanwhile, since the driver may read and write files.
  const process::Uncancelled uncancelled_;
  const Device& device_;
  bool pushed_ = false;
  bool relaxed_ = false;
  int mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};
}  // namespace symm::cuda
