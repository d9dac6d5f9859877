// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device.hpp"

#include <cstring>

namespace symm::cuda {

std::shared_ptr<Device> Device::open(int ordinal) {
  const Driver& driver = cuda::driver();
  int devices = 0;
  driver.require(driver.cuDeviceGetCount(&devices), "cuDeviceGetCount");
  if (ordinal < 0 || ordinal >= devices) {
    throw Error(Status::invalid_argument, format("device: %d is not in 0 .. %d", ordinal, devices - 1));
  }
  std::shared_ptr<Device> device(new Device(driver));
  device->ordinal_ = ordinal;
  driver.require(driver.cuDeviceGet(&device->device_, ordinal), "cuDeviceGet");
  CUuuid uuid{};
  driver.require(driver.cuDeviceGetUuid(&uuid, device->device_), "cuDeviceGetUuid");
  std::memcpy(device->uuid_.data(), uuid.bytes, sizeof uuid.bytes);
  device->multiprocessors_ = device->attribute(kMultiprocessors);
  driver.require(driver.cuDevicePrimaryCtxRetain(&device->context_, device->device_), "cuDevicePrimaryCtxRetain");
  const Current current(*device);
  driver.require(driver.cuStreamCreate(&device->stream_, kNonBlocking), "cuStreamCreate");
  return device;
}

Device::~Device() {
  if (context_ == nullptr) return;
  try {
    reclaim();
    const Current current(*this);
    if (stream_ != nullptr) driver_.cuStreamDestroy(stream_);
  } catch (const Error&) {  // the context is in error or gone, and with it what was to be given back
  }
  driver_.cuDevicePrimaryCtxRelease(device_);
}

void Device::put_off(std::function<void()> work) noexcept {
  try {
    const std::lock_guard lock(put_off_mutex_);
    put_off_.push_back(std::move(work));
  } catch (const std::bad_alloc&) {  // leaked rather than pulled away under a kernel
  }
}

void Device::reclaim() {
  std::vector<std::function<void()>> work;
  {
    const std::lock_guard lock(put_off_mutex_);
    work.swap(put_off_);
  }
  if (work.empty()) return;
  const Current current(*this, Current::Capture::relaxed);
  if (const CUresult result = driver_.cuCtxSynchronize(); result != kSuccess) {
    // While some stream of the process is captured the device cannot be waited for: next time.
    const std::lock_guard lock(put_off_mutex_);
    put_off_.insert(put_off_.begin(), std::make_move_iterator(work.begin()), std::make_move_iterator(work.end()));
    return;
  }
  for (const auto& one : work) one();
}

int Device::attribute(int which) const noexcept {
  int value = 0;
  return driver_.cuDeviceGetAttribute(&value, which, device_) == kSuccess ? value : 0;
}

std::string text_of(const Uuid& uuid) {
  std::string text = "GPU-";
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += format("%02x", std::to_integer<unsigned>(uuid[i]));
  }
  return text;
}

Current::Current(const Device& device, Capture capture) : device_(device) {
  const Driver& driver = device.driver();
  CUcontext current = nullptr;
  if (driver.cuCtxGetCurrent(&current) != kSuccess || current != device.context()) {
    driver.require(driver.cuCtxPushCurrent(device.context()), "cuCtxPushCurrent");
    pushed_ = true;
  }
  if (capture == Capture::relaxed) relaxed_ = driver.cuThreadExchangeStreamCaptureMode(&mode_) == kSuccess;
}

Current::~Current() {
  const Driver& driver = device_.driver();
  if (relaxed_) driver.cuThreadExchangeStreamCaptureMode(&mode_);
  CUcontext popped = nullptr;
  if (pushed_) driver.cuCtxPopCurrent(&popped);
}

}  // namespace symm::cuda
