#include "core/cuda/stream_order.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/stream_uses.hpp"

namespace symm::cuda {
StreamOrder::StreamOrder(std::shared_ptr<Device> device, const StreamOrder* with)
    : device_(std::move(device)), last_(with != nullptr ? with->last_ : std::make_shared<Last>()) {}

StreamOrder::~StreamOrder() {
  const ContextGuard current(*device_, std::nothrow);
  streams_.clear();
  captured_ = {};
  last_.reset();
}

StreamOrder::Place StreamOrder::place_of(CUstream stream) {
  const unsigned long long capture = device_->uses().capture_of(stream);
  return {stream, capture,
      capture != 0 ? reinterpret_cast<StreamId>(stream) : device_->uses().id_of(stream)};
}

void StreamOrder::wait(const Place& place, const Event& event) {
  device_->driver().require(
      device_->driver().cuStreamWaitEvent(place.stream, event.get(), 0), "cuStreamWaitEvent");
}

StreamOrder::Place StreamOrder::before(CUstream stream) {
  const Place place = place_of(stream);
  if (const Call& last = last_->of(place); last.event && last.stream != place.id) {
    wait(place, last.event);
  }
  return place;
}

void StreamOrder::after(const Place& place) {
  Call& last = last_->of(place);
  const Event used = record(place);
  if (place.capture == 0) {
    last.event = used;
  } else {
    record_captured(place, last.event);
  }
  last.stream = place.id;
}

void StreamOrder::record_captured(const Place& place, Event& known) {
  Event event = known ? known : device_->uses().make_event();
  device_->driver().require(
      device_->driver().cuEventRecord(event.get(), place.stream), "cuEventRecord");
  known = std::move(event);
}

Event StreamOrder::record(const Place& place) {
  if (place.capture != 0) {
    const std::lock_guard lock(mutex_);
    Event& known = captured_[place.capture][place.id];
    return record_captured(place, known), known;
  }
  Event event = device_->uses().record(place.stream, place.id);
  const std::lock_guard lock(mutex_);
  Event& known = streams_[place.id];
  if (known == event) return event;
  known = event;
  if (streams_.size() > StreamUses::kMany) {
    std::erase_if(streams_, [&](const auto& one) { return device_->uses().is_over(one.second); });
  }
  return event;
}

void StreamOrder::record_use(CUstream stream) { record(place_of(stream)); }

void StreamOrder::gather(CUstream stream) {
  const Place place = place_of(stream);
  const std::lock_guard lock(mutex_);
  for (const auto& [of, event] : place.capture != 0 ? captured_[place.capture] : streams_) {
    if (event && of != place.id && (place.capture != 0 || !device_->uses().is_over(event))) {
      wait(place, event);
    }
  }
}

SideStreams::~SideStreams() {
  const ContextGuard current(*device_, std::nothrow);
  for (const Side& side : sides_) {
    device_->driver().cuStreamDestroy(side.stream);
  }
  sides_.clear();
}

void SideStreams::order(CUstream before, CUstream after, const Event& event) const {
  device_->driver().require(device_->driver().cuEventRecord(event.get(), before), "cuEventRecord");
  device_->driver().require(
      device_->driver().cuStreamWaitEvent(after, event.get(), 0), "cuStreamWaitEvent");
}

CUstream SideStreams::fork(CUstream stream) {
  const auto capture_of = [&](CUstream of, unsigned long long& capture) {
    int status = 0;
    return device_->driver().cuStreamGetCaptureInfo(of, &status, &capture) == CUDA_SUCCESS &&
           status != 2;
  };
  unsigned long long wanted = 0;
  capture_of(stream, wanted);
  const auto fits = [&](const Side& side) {
    unsigned long long capture = 0;
    return capture_of(side.stream, capture) && (capture == 0 || capture == wanted);
  };
  auto found = std::find_if(sides_.begin(), sides_.end(), fits);
  if (found == sides_.end()) {
    const ContextGuard current(*device_, ContextGuard::Capture::relaxed);
    Side made{nullptr, device_->uses().make_event()};
    device_->driver().require(
        device_->driver().cuStreamCreate(&made.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    found = sides_.insert(sides_.end(), std::move(made));
  }
  order(stream, found->stream, found->event);
  forked_ = &*found;
  return forked_->stream;
}

void SideStreams::join(CUstream stream) {
  if (const Side* side = std::exchange(forked_, nullptr)) order(side->stream, stream, side->event);
}
}  // namespace symm::cuda
