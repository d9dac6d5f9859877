// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device.hpp"

#include <cstring>

namespace symm::cuda {

namespace {

// Devices that were let go of while something was still under way on them. Leaked, because handles may be released while static
// objects are destroyed.
struct Lingering {
  std::mutex mutex;
  std::vector<Device*> devices;
};
Lingering& lingering() {
  static auto* instance = new Lingering;
  return *instance;
}

}  // namespace

std::shared_ptr<Device> Device::open(int ordinal) {
  const Driver& driver = cuda::driver();
  int devices = 0;
  driver.require(driver.cuDeviceGetCount(&devices), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= devices) {
    throw Error(Status::invalid_argument, format("device: %d is not in 0 .. %d", ordinal, devices - 1));
  }
  // When its last user goes, what was put off may still have to wait: then the object lingers.
  std::shared_ptr<Device> device(new Device(driver), [](Device* last) {
    if (last->settle()) {
      delete last;
      return;
    }
    const std::lock_guard lock(lingering().mutex);
    lingering().devices.push_back(last);
  });
  device->ordinal_ = ordinal;
  driver.require(driver.cuDeviceGet(&device->device_, ordinal), "cuDeviceGet");
  CUuuid uuid{};
  driver.require(driver.cuDeviceGetUuid(&uuid, device->device_), "cuDeviceGetUuid");
  std::memcpy(device->uuid_.data(), uuid.bytes, sizeof uuid.bytes);
  device->multiprocessors_ = device->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  driver.require(driver.cuDevicePrimaryCtxRetain(&device->context_, device->device_), "cuDevicePrimaryCtxRetain");
  const ContextGuard current(*device);
  driver.require(driver.cuStreamCreate(&device->stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  return device;
}

Device::~Device() {
  if (context_ == nullptr) return;
  {
    const ContextGuard current(*this, std::nothrow);
    for (const auto& [stream, event] : events_) driver_.cuEventDestroy(event);
    if (stream_ != nullptr) driver_.cuStreamDestroy(stream_);
  }
  driver_.cuDevicePrimaryCtxRelease(device_);
}

CUevent Device::record_use(CUstream stream) {
  const std::lock_guard lock(mutex_);
  CUevent& event = events_[stream];
  if (event == nullptr) driver_.require(driver_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  driver_.require(driver_.cuEventRecord(event, stream), "cuEventRecord");
  return event;
}

bool Device::idle() noexcept {
  for (const auto& [stream, event] : events_) {
    if (event != nullptr && driver_.cuEventQuery(event) == CUDA_ERROR_NOT_READY) return false;
  }
  return true;
}

bool Device::settle() noexcept {
  std::vector<std::function<void()>> work;
  const ContextGuard current(*this, std::nothrow);
  {
    const std::lock_guard lock(mutex_);
    if (deferred_.empty()) return true;
    if (!idle()) return false;
    work.swap(deferred_);
  }
  for (const auto& one : work) one();
  return true;
}

void Device::defer(std::function<void()> work) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    deferred_.push_back(std::move(work));
  } catch (const std::bad_alloc&) {  // leaked rather than pulled away under a kernel
    return;
  }
  settle();
}

void Device::reclaim() noexcept {
  settle();
  const std::lock_guard lock(lingering().mutex);
  std::erase_if(lingering().devices, [](Device* device) {
    if (!device->settle()) return false;
    delete device;
    return true;
  });
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
  if (capture == Capture::relaxed) relaxed_ = driver.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
}

ContextGuard::ContextGuard(const Device& device, std::nothrow_t) noexcept : device_(device) {
  const Driver& driver = device.driver();
  CUcontext current = nullptr;
  if (driver.cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != device.context())
    pushed_ = driver.cuCtxPushCurrent(device.context()) == CUDA_SUCCESS;
  relaxed_ = driver.cuThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
}

ContextGuard::~ContextGuard() {
  const Driver& driver = device_.driver();
  if (relaxed_) driver.cuThreadExchangeStreamCaptureMode(&mode_);
  CUcontext popped = nullptr;
  if (pushed_) driver.cuCtxPopCurrent(&popped);
}

}  // namespace symm::cuda
