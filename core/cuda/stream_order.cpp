// Has each collective wait, on its stream, for the former one of the same scratch, by events;
// captures are ordered apart.
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
    : device_(std::move(device)),
      last_(with != nullptr ? with->last_ : std::make_shared<LastCalls>()) {}

StreamOrder::~StreamOrder() {
  const ContextGuard current(*device_, std::nothrow);
  streams_.clear();
  captured_ = {};
  last_.reset();
}

StreamOrder::CallStream StreamOrder::call_stream(CUstream stream) {
  const unsigned long long capture = device_->uses().capture_of(stream);
  return {stream, capture,
      capture != 0 ? reinterpret_cast<StreamId>(stream) : device_->uses().id_of(stream)};
}

void StreamOrder::wait(const CallStream& on, const Event& event) {
  device_->driver().require(
      device_->driver().cuStreamWaitEvent(on.stream, event.get(), 0), "cuStreamWaitEvent");
}

StreamOrder::CallStream StreamOrder::before(CUstream stream) {
  const CallStream on = call_stream(stream);
  if (const Call& last = last_->last(on); last.event && last.stream != on.id) {
    wait(on, last.event);
  }
  return on;
}

void StreamOrder::after(const CallStream& on) {
  Call& last = last_->last(on);
  const Event used = record(on);
  if (on.capture == 0) {
    last.event = used;
  } else {
    record_captured(on, last.event);
  }
  last.stream = on.id;
}

void StreamOrder::record_captured(const CallStream& on, Event& known) {
  Event event = known ? known : device_->uses().make_event();
  device_->driver().require(
      device_->driver().cuEventRecord(event.get(), on.stream), "cuEventRecord");
  known = std::move(event);
}

Event StreamOrder::record(const CallStream& on) {
  if (on.capture != 0) {
    const std::lock_guard lock(mutex_);
    Event& known = captured_[on.capture][on.id];
    record_captured(on, known);
    return known;
  }

  Event event = device_->uses().record(on.stream, on.id);
  const std::lock_guard lock(mutex_);
  Event& known = streams_[on.id];
  if (known == event) return event;

  known = event;
  if (streams_.size() > StreamUses::kWorthForgetting) {
    std::erase_if(streams_, [&](const auto& one) { return device_->uses().is_over(one.second); });
  }
  return event;
}

void StreamOrder::record_use(CUstream stream) { record(call_stream(stream)); }

void StreamOrder::gather(CUstream stream) {
  const CallStream on = call_stream(stream);
  const std::lock_guard lock(mutex_);
  for (const auto& [id, event] : on.capture != 0 ? captured_[on.capture] : streams_) {
    if (event && id != on.id && (on.capture != 0 || !device_->uses().is_over(event))) {
      wait(on, event);
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
  // False if the capture has been invalidated.
  const auto capture_of = [&](CUstream one, unsigned long long& capture) {
    int status = 0;
    return device_->driver().cuStreamGetCaptureInfo(one, &status, &capture) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_INVALIDATED;
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
  const Side* side = std::exchange(forked_, nullptr);
  if (side != nullptr) order(side->stream, stream, side->event);
}
}  // namespace symm::cuda
