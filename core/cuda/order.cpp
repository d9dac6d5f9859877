// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/order.hpp"

namespace symm::cuda {

Order::Order(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const Driver& driver = device_->driver();
  const Current current(*device_, Current::Capture::relaxed);
  driver.require(driver.cuEventCreate(&eager_.event, kWithoutTiming), "cuEventCreate");
  if (const CUresult result = driver.cuEventCreate(&captured_.event, kWithoutTiming); result != kSuccess) {
    driver.cuEventDestroy(eager_.event);
    driver.require(result, "cuEventCreate");
  }
}

Order::~Order() {
  device_->put_off([&driver = device_->driver(), a = eager_.event, b = captured_.event] {
    driver.cuEventDestroy(a);
    driver.cuEventDestroy(b);
  });
}

void Order::before(CUstream stream) {
  const Driver& driver = device_->driver();
  int status = 0;
  now_ = 0;
  unsigned long long id = 0;
  driver.require(driver.cuStreamGetCaptureInfo(stream, &status, &id), "cuStreamGetCaptureInfo", "stream");
  if (status == 2) throw Error(Status::invalid_argument, "stream: its capture has been invalidated");
  if (status == 1) now_ = id;
  if (now_ != 0) {
    if (captured_.any && capture_ == now_ && captured_.stream != stream) {
      driver.require(driver.cuStreamWaitEvent(stream, captured_.event, 0), "cuStreamWaitEvent");
    }
  } else if (eager_.any && eager_.stream != stream) {
    driver.require(driver.cuStreamWaitEvent(stream, eager_.event, 0), "cuStreamWaitEvent");
  }
}

void Order::after(CUstream stream) {
  Last& last = now_ != 0 ? captured_ : eager_;
  device_->driver().require(device_->driver().cuEventRecord(last.event, stream), "cuEventRecord");
  last.stream = stream;
  last.any = true;
  if (now_ != 0) capture_ = now_;
}

}  // namespace symm::cuda
