// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/stream_order.hpp"

namespace symm::cuda {

StreamOrder::StreamOrder(std::shared_ptr<Device> device) : device_(std::move(device)) {
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  captured_.event = device_->uses().make_event();
}

StreamOrder::~StreamOrder() {
  const ContextGuard current(*device_, std::nothrow);
  streams_.clear();
  eager_.event.reset();
  captured_.event.reset();
}

unsigned long long StreamOrder::before(CUstream stream) {
  const unsigned long long capture = device_->uses().capture_of(stream);
  if (capture != 0) {
    await_captured(stream, capture);
  } else if (eager_.event && eager_.stream != device_->uses().id_of(stream)) {
    device_->driver().require(device_->driver().cuStreamWaitEvent(stream, eager_.event.get(), 0), "cuStreamWaitEvent");
  }
  return capture;
}

void StreamOrder::after(CUstream stream, unsigned long long capture) {
  if (capture == 0) {
    const StreamId id = device_->uses().id_of(stream);
    eager_ = {record(stream, id), id};
    return;
  }
  const std::lock_guard lock(mutex_);
  device_->driver().require(device_->driver().cuEventRecord(captured_.event.get(), stream), "cuEventRecord");
  captured_.stream = stream;
  captured_.capture = capture;
}

void StreamOrder::await_captured(CUstream stream, unsigned long long capture) {
  if (capture == captured_.capture && stream != captured_.stream)
    device_->driver().require(device_->driver().cuStreamWaitEvent(stream, captured_.event.get(), 0), "cuStreamWaitEvent");
}

Event StreamOrder::record(CUstream stream, StreamId id) {
  Event event = device_->uses().record(stream);
  const std::lock_guard lock(mutex_);
  Event& known = streams_[id];
  if (known == event) return event;
  known = event;
  if (streams_.size() > StreamUses::kMany) {
    std::erase_if(streams_, [&](const auto& one) { return device_->uses().is_over(one.second); });
  }
  return event;
}

void StreamOrder::record_use(CUstream stream) {
  if (device_->uses().capture_of(stream) == 0) record(stream, device_->uses().id_of(stream));
}

void StreamOrder::gather(CUstream stream) {
  const Driver& driver = device_->driver();
  const unsigned long long capture = device_->uses().capture_of(stream);
  const std::lock_guard lock(mutex_);
  if (capture != 0) return await_captured(stream, capture);
  const StreamId id = device_->uses().id_of(stream);
  for (const auto& [of, event] : streams_) {
    if (of != id && !device_->uses().is_over(event))
      driver.require(driver.cuStreamWaitEvent(stream, event.get(), 0), "cuStreamWaitEvent");
  }
}

}  // namespace symm::cuda
