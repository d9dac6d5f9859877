// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/order.hpp"

namespace symm::cuda {

Order::Order(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const Current current(*device_, Current::Capture::relaxed);
  device_->driver().require(device_->driver().cuEventCreate(&captured_.event, kWithoutTiming), "cuEventCreate");
}

Order::~Order() {
  device_->put_off([&driver = device_->driver(), event = captured_.event] { driver.cuEventDestroy(event); });
}

unsigned long long Order::capture_of(CUstream stream) const {
  int status = 0;
  unsigned long long id = 0;
  device_->driver().require(device_->driver().cuStreamGetCaptureInfo(stream, &status, &id), "cuStreamGetCaptureInfo", "stream");
  if (status == 2) throw Error(Status::invalid_argument, "stream: its capture has been invalidated");
  return status == 1 ? id : 0;
}

unsigned long long Order::before(CUstream stream) {
  const unsigned long long capture = capture_of(stream);
  const Last& last = capture != 0 ? captured_ : eager_;
  if (last.any && last.stream != stream && (capture == 0 || capture == capture_))
    device_->driver().require(device_->driver().cuStreamWaitEvent(stream, last.event, 0), "cuStreamWaitEvent");
  return capture;
}

void Order::after(CUstream stream, unsigned long long capture) {
  if (capture == 0) {
    eager_ = {device_->used(stream), stream, true};
    return;
  }
  device_->driver().require(device_->driver().cuEventRecord(captured_.event, stream), "cuEventRecord");
  captured_.stream = stream;
  captured_.any = true;
  capture_ = capture;
}

void Order::beside(CUstream stream) {
  if (capture_of(stream) == 0) device_->used(stream);
}

}  // namespace symm::cuda
