// Opens a GPU's primary context, and asks what the GPU can do.
#include "core/cuda/device.hpp"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/base/background_tasks.hpp"
#include "core/base/closed_streams.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/per_process.hpp"
#include "core/base/process.hpp"
#include "core/base/reserve.hpp"
#include "core/base/wait.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/stream_uses.hpp"

namespace symm::cuda {
namespace {
// All devices that are open, and those that were released while work was still under way on them.
struct Devices {
  std::mutex mutex;
  std::vector<std::weak_ptr<Device>> open;
  std::vector<Device*> lingering;
};

using AllDevices = PerProcess<Devices>;
}  // namespace

std::shared_ptr<Device> Device::open(int ordinal) {
  const Driver& driver = cuda::driver();
  int devices = 0;
  driver.require(driver.cuDeviceGetCount(&devices), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= devices) {
    throw Error(
        Status::invalid_argument, format("device: %d is not in 0 .. %d", ordinal, devices - 1));
  }

  // When the last user goes, work that was put off may still have to wait. Then the object lingers.
  std::shared_ptr<Device> device(new Device(driver), [](Device* last) {
    if (last->settle()) {
      delete last;
      return;
    }

    try {
      Devices& all = AllDevices::current();
      const std::lock_guard lock(all.mutex);
      with_reserve([&] { all.lingering.push_back(last); });
    } catch (const std::bad_alloc&) {
      // Leaked, rather than freed under a kernel.
      return;
    }
  });

  device->ordinal_ = ordinal;
  driver.require(driver.cuDeviceGet(&device->device_, ordinal), "cuDeviceGet");
  CUuuid uuid{};
  driver.require(driver.cuDeviceGetUuid(&uuid, device->device_), "cuDeviceGetUuid");
  std::memcpy(device->uuid_.data(), uuid.bytes, sizeof uuid.bytes);
  device->multiprocessors_ = device->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  const ClosedStreams held;  // a context comes with descriptors
  driver.require(driver.cuDevicePrimaryCtxRetain(&device->context_, device->device_),
      "cuDevicePrimaryCtxRetain");

  const ContextGuard current(*device);
  driver.require(driver.cuStreamCreate(&device->stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  device->uses_ =
      ByOrdinal<StreamUses>::get(ordinal, [&] { return std::make_shared<StreamUses>(driver); });
  device->everybodys_.event = device->uses_->make_event();

  Devices& all = AllDevices::current();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.open, [](const auto& one) { return one.expired(); });
  all.open.push_back(device);
  return device;
}

Device::~Device() {
  if (context_ == nullptr) return;
  {
    const ContextGuard current(*this, std::nothrow);
    everybodys_.event.reset();
    recorded_.event.reset();
    uses_.reset();
    if (gate_ != nullptr) driver_.cuStreamDestroy(gate_);
    if (stream_ != nullptr) driver_.cuStreamDestroy(stream_);
  }
  driver_.cuDevicePrimaryCtxRelease(device_);
}

// The mutex is held.
void Device::prepare_recorded() {
  if (gate_ == nullptr) {
    driver_.require(driver_.cuStreamCreate(&gate_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  }
  if (!recorded_.event) recorded_.event = uses_->make_event();
}

bool Device::record_use(void* stream) {
  const ContextGuard current(*this);
  {
    const std::lock_guard lock(mutex_);
    prepare_recorded();
  }
  if (uses_->capture_of(static_cast<CUstream>(stream)) != 0) return false;
  uses_->record(static_cast<CUstream>(stream));
  return true;
}

CUstream Device::after_everything() {
  const std::lock_guard lock(mutex_);
  if (driver_.cuCtxRecordEvent == nullptr || uses_->may_be_captured()) return nullptr;
  prepare_recorded();
  const Event event = uses_->make_event();
  if (driver_.cuCtxRecordEvent(context_, event.get()) != CUDA_SUCCESS) return nullptr;
  driver_.require(driver_.cuStreamWaitEvent(gate_, event.get(), 0), "cuStreamWaitEvent");
  return gate_;
}

void Device::require_idle(Deadline deadline) {
  // What other threads were to have issued by now, as the words that end graphs of a group that has
  // failed, comes first.
  const auto is_issued = std::make_shared<std::atomic<bool>>(false);
  const auto is_over = std::make_shared<std::atomic<bool>>(false);
  do_elsewhere([is_issued] { is_issued->store(true); });
  bool is_put_off = false;
  const auto look = [&] {
    if (!is_issued->load()) return false;
    if (!is_put_off) put_off([is_over] { is_over->store(true); }, false);
    is_put_off = true;
    settle();
    return is_over->load();
  };
  if (retry_until(look, deadline)) return;
  throw Error(Status::timeout,
      format("device %d: what it had to do, or the capture of a stream, was not over before the "
             "deadline",
          ordinal_));
}

CUstream Device::after_recorded(CUstream stream) {
  uses_->record(stream);
  const std::lock_guard lock(mutex_);
  prepare_recorded();
  uses_->gather(gate_);
  return gate_;
}

// While a stream of the device is captured, the driver refuses questions about the whole device,
// and invalidates the capture.
bool Device::begin(Releases& releases) noexcept {
  if (&releases == &recorded_) {
    try {
      uses_->gather(gate_);
    } catch (const std::exception&) {
      // The device is in error, so nothing runs on it any more.
    }
    driver_.cuEventRecord(releases.event.get(), gate_);
    return true;
  }

  if (uses_->may_be_captured()) return false;
  if (driver_.cuCtxRecordEvent != nullptr) {
    const CUresult result = driver_.cuCtxRecordEvent(context_, releases.event.get());
    if (result == CUDA_SUCCESS) return true;
    if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) return false;
  }
  return begin_to_finish(releases);
}

// The thread may outlive this object, and has no deadline: nothing waits for it, and it holds
// nothing.
bool Device::begin_to_finish(Releases& releases) noexcept {
  try {
    auto finishing = std::make_shared<std::atomic<int>>(under_way);

    process::start_thread("symm-release", [finishing, &driver = driver_, context = context_] {
      int relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
      driver.cuThreadExchangeStreamCaptureMode(&relaxed);
      CUresult result = driver.cuCtxPushCurrent(context);
      if (result == CUDA_SUCCESS) result = driver.cuCtxSynchronize();
      finishing->store(result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ? refused : done,
          std::memory_order_release);
    });

    releases.finishing = std::move(finishing);
    return true;
  } catch (const std::exception&) {
    // Without a thread or memory nothing is finished now; the next look tries again.
    return false;
  }
}

bool Device::is_over(Releases& releases) noexcept {
  if (!releases.finishing) {
    return driver_.cuEventQuery(releases.event.get()) != CUDA_ERROR_NOT_READY;
  }
  const int end = releases.finishing->load(std::memory_order_acquire);
  if (end == under_way) return false;
  releases.finishing.reset();
  releases.has_begun = end == done;
  return releases.has_begun;
}

bool Device::settle(Releases& releases) noexcept {
  while (true) {
    std::vector<std::function<void()>> work;
    {
      const std::lock_guard lock(mutex_);
      if (releases.waiting.empty()) {
        if (releases.next.empty()) return true;
        releases.waiting.swap(releases.next);
        releases.has_begun = false;
      }
      if (!releases.has_begun) releases.has_begun = begin(releases);
      if (!releases.has_begun || !is_over(releases)) return false;
      work.swap(releases.waiting);
    }

    for (const auto& one : work) {
      one();
    }
  }
}

bool Device::settle() noexcept {
  const ContextGuard current(*this, std::nothrow);
  const bool recorded = settle(recorded_);
  return settle(everybodys_) && recorded;
}

void Device::put_off(std::function<void()> work, bool recorded) {
  const std::lock_guard lock(mutex_);
  (recorded ? recorded_ : everybodys_).next.push_back(std::move(work));
}

void Device::reclaim() noexcept {
  Devices* const all = AllDevices::existing();
  if (all == nullptr) return;
  std::vector<std::shared_ptr<Device>> open;
  std::vector<Device*> lingering;
  try {
    {
      const std::lock_guard lock(all->mutex);
      for (const auto& one : all->open) {
        if (auto device = one.lock()) open.push_back(std::move(device));
      }
      lingering.swap(all->lingering);
    }
    for (const auto& device : open) {
      device->settle();
    }

    std::erase_if(lingering, [](Device* device) {
      const bool over = device->settle();
      if (over) delete device;
      return over;
    });

    const std::lock_guard lock(all->mutex);
    with_reserve(
        [&] { all->lingering.insert(all->lingering.end(), lingering.begin(), lingering.end()); });
  } catch (const std::bad_alloc&) {
    // The work stays put off, or is leaked.
    return;
  }
}

int Device::attribute(int which, int unknown) const noexcept {
  int value = 0;
  return driver_.cuDeviceGetAttribute(&value, which, device_) == CUDA_SUCCESS ? value : unknown;
}

std::string text_of(const Uuid& uuid) {
  std::string text = "GPU-";
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += format("%02x", std::to_integer<unsigned>(uuid[i]));
  }
  return text;
}

ContextGuard::ContextGuard(const Device& device, Capture capture) : device_(device) {
  const Driver& driver = device.driver();
  CUcontext current = nullptr;
  if (driver.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != device.context()) {
    driver.require(driver.cuCtxPushCurrent(device.context()), "cuCtxPushCurrent");
    pushed_ = true;
  }
  if (capture == Capture::relaxed) {
    relaxed_ = driver.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
  }
}

ContextGuard::ContextGuard(const Device& device, std::nothrow_t) noexcept : device_(device) {
  const Driver& driver = device.driver();
  CUcontext current = nullptr;
  if (driver.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != device.context()) {
    pushed_ = driver.cuCtxPushCurrent(device.context()) == CUDA_SUCCESS;
  }
  relaxed_ = driver.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
}

ContextGuard::~ContextGuard() {
  const Driver& driver = device_.driver();
  if (relaxed_) driver.cuThreadExchangeStreamCaptureMode(&mode_);
  CUcontext popped = nullptr;
  if (pushed_) driver.cuCtxPopCurrent(&popped);
}
}  // namespace symm::cuda
