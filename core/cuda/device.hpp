// One GPU: its primary context, which symm shares with
// whatever else runs in the process, and what it can do.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "core/base/per_process.hpp"
#include "core/base/reserve.hpp"
#include "core/cuda/stream_uses.hpp"

namespace symm::cuda {
using Uuid = std::array<std::byte, 16>;

// What this process has one of for each device, made
// by make(), for as long as somebody works with it.
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
    if (!found) entry = found = make();
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
  // `unknown` if the driver does not know it.
  int attribute(int which, int unknown = 0) const noexcept;
  // of our own, for what must not wait for the user's
  CUstream stream() const noexcept { return stream_; }

  // of all in this process that work on the device
  StreamUses& uses() const noexcept { return *uses_; }

  // Release never waits, but kernels may still use what is released:
  // symm's, the caller's, a graph's. Runs `work` now if the device has
  // nothing to do, else when an allocation or release finds that all it had
  // to do at this time is over. `recorded`: that all recorded uses are.
  template <class Work>
  void defer(const Work& work, bool recorded = false) noexcept {
    try {
      with_reserve([&] { put_off(work, recorded); });
    } catch (const std::bad_alloc&) {  // leaked rather than pulled away under a kernel
      return;
    }
    settle();
  }
  // As Block::record_use().
  bool record_use(void* stream);
  // A stream of our own that comes after all that the device has to
  // do now; null where the driver does not say that, or a capture
  // is under way. After recorded uses and `stream`, for another.
  CUstream after_everything();
  CUstream after_recorded(CUstream stream);
  static void reclaim() noexcept;  // on all devices; does not load the driver
 private:
  // What was released goes in two steps: all that has come when a period begins waits
  // for its end, because it has begun after all uses of those; what comes meanwhile
  // waits for the next. So work that never ceases does not keep it for ever.
  struct Releases {
    std::vector<std::function<void()>> next, waiting;
    bool has_begun = false;
    Event event;  // the period ends with it, ...
    // ... or, unless null, when a thread that waits for the device has said so
    std::shared_ptr<std::atomic<int>> finishing;
  };
  enum Finishing { under_way, done, refused };

  explicit Device(const Driver& driver) : driver_(driver) {}
  void put_off(std::function<void()> work, bool recorded);
  void prepare_recorded();
  // The mutex is held, the context current.
  bool begin(Releases& releases) noexcept;
  bool begin_to_finish(Releases& releases) noexcept;
  bool is_over(Releases& releases) noexcept;
  bool settle(Releases& releases) noexcept;  // run what was put off; false if it has to wait
  bool settle() noexcept;

  const Driver& driver_;
  CUdevice device_ = 0;
  int ordinal_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  Uuid uuid_{};
  int multiprocessors_ = 0;
  std::shared_ptr<StreamUses> uses_;
  CUstream gate_ = nullptr;  // of our own: comes after all recorded uses
  std::mutex mutex_;
  Releases everybodys_, recorded_;
};

std::string text_of(const Uuid& uuid);  // "GPU-..." as nvidia-smi writes it

// Makes a device's context current on this thread for a scope, and lets calls through
// that a stream capture elsewhere in the process would forbid (allocation,
// synchronisation of our own stream): they have nothing to do with what is captured.
class ContextGuard {
 public:
  enum class Capture { as_it_is, relaxed };
  explicit ContextGuard(const Device& device, Capture capture = Capture::as_it_is);
  // For release, which goes on if the context cannot be made current any more.
  ContextGuard(const Device& device, std::nothrow_t) noexcept;
  ~ContextGuard();
  ContextGuard(ContextGuard&&) = delete;

 private:
  const process::Uncancelled whole_;  // the driver may read and write files
  const Device& device_;
  bool pushed_ = false;
  bool relaxed_ = false;
  int mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};
}  // namespace symm::cuda
