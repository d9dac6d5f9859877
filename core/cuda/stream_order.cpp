#include "core/cuda/stream_order.hpp"

namespace symm::cuda {
StreamOrder::StreamOrder(std::shared_ptr<Device> device, const StreamOrder* with)
    : device_(std::move(device)), last_(with != nullptr ? with->last_ : std::make_shared<Last>()) {
  if (with != nullptr) return;
  const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
  last_->captured.event = device_->uses().make_event();
}

StreamOrder::~StreamOrder() {
  const ContextGuard current(*device_, std::nothrow);
  streams_.clear();
  last_.reset();
}

StreamOrder::Place StreamOrder::place_of(CUstream stream) {
  const unsigned long long capture = device_->uses().capture_of(stream);
  return {stream, capture, capture != 0 ? 0 : device_->uses().id_of(stream)};
}

StreamOrder::Place StreamOrder::before(CUstream stream) {
  const Place place = place_of(stream);
  if (place.capture != 0) await_captured(place);
  else if (const auto& eager = last_->eager; eager.event && eager.stream != place.id)
    device_->driver().require(device_->driver().cuStreamWaitEvent(stream, eager.event.get(), 0), "cuStreamWaitEvent");
  return place;
}

void StreamOrder::after(const Place& place) {
  if (place.capture == 0) {
    last_->eager = {record(place.stream, place.id), place.id};
    return;
  }
  const std::lock_guard lock(last_->mutex);
  auto& captured = last_->captured;
  device_->driver().require(device_->driver().cuEventRecord(captured.event.get(), place.stream), "cuEventRecord");
  captured.stream = place.stream;
  captured.capture = place.capture;
}

void StreamOrder::await_captured(const Place& place) {
  const std::lock_guard lock(last_->mutex);
  const auto& captured = last_->captured;
  if (place.capture == captured.capture && place.stream != captured.stream)
    device_->driver().require(device_->driver().cuStreamWaitEvent(place.stream, captured.event.get(), 0), "cuStreamWaitEvent");
}

Event StreamOrder::record(CUstream stream, StreamId id) {
  Event event = device_->uses().record(stream, id);
  const std::lock_guard lock(mutex_);
  Event& known = streams_[id];
  if (known == event) return event;
  known = event;
  if (streams_.size() > StreamUses::kMany)
    std::erase_if(streams_, [&](const auto& one) { return device_->uses().is_over(one.second); });
  return event;
}

void StreamOrder::record_use(CUstream stream) {
  if (const Place place = place_of(stream); place.capture == 0) record(stream, place.id);
}

void StreamOrder::gather(CUstream stream) {
  const Driver& driver = device_->driver();
  const Place place = place_of(stream);
  if (place.capture != 0) return await_captured(place);
  const std::lock_guard lock(mutex_);
  for (const auto& [of, event] : streams_)
    if (of != place.id && !device_->uses().is_over(event))
      driver.require(driver.cuStreamWaitEvent(stream, event.get(), 0), "cuStreamWaitEvent");
}
}  // namespace symm::cuda
