// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/stream_order.hpp"

namespace symm::cuda {

StreamOrder::StreamOrder(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  device_->driver().require(device_->driver().cuEventCreate(&captured_.event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
}

StreamOrder::~StreamOrder() {
  device_->defer([&driver = device_->driver(), event = captured_.event] { driver.cuEventDestroy(event); });
}

unsigned long long StreamOrder::capture_of(CUstream stream) const {
  int status = 0;
  unsigned long long id = 0;
  device_->driver().require(device_->driver().cuStreamGetCaptureInfo(stream, &status, &id), "cuStreamGetCaptureInfo", "stream");
  if (status == 2) throw Error(Status::invalid_argument, "stream: its capture has been invalidated");
  return status == 1 ? id : 0;
}

unsigned long long StreamOrder::before(CUstream stream) {
  const unsigned long long capture = capture_of(stream);
  const Last& last = capture != 0 ? captured_ : eager_;
  if (last.any && last.stream != stream && (capture == 0 || capture == capture_))
    device_->driver().require(device_->driver().cuStreamWaitEvent(stream, last.event, 0), "cuStreamWaitEvent");
  return capture;
}

void StreamOrder::after(CUstream stream, unsigned long long capture) {
  if (capture == 0) {
    eager_ = {device_->record_use(stream), stream, true};
    return;
  }
  device_->driver().require(device_->driver().cuEventRecord(captured_.event, stream), "cuEventRecord");
  captured_.stream = stream;
  captured_.any = true;
  capture_ = capture;
}

void StreamOrder::record_use(CUstream stream) {
  if (capture_of(stream) == 0) device_->record_use(stream);
}

}  // namespace symm::cuda
