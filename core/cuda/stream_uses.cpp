// Keeps events of the streams that may still use memory, so that a release can come after them.
#include "core/cuda/stream_uses.hpp"

#include <mutex>
#include <thread>
#include <utility>

#include "core/base/error.hpp"
#include "core/cuda/driver.hpp"

namespace symm::cuda {
Event StreamUses::make_event() const {
  CUevent made = nullptr;
  driver_.require(driver_.cuEventCreate(&made, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  return {made, [&driver = driver_](CUevent event) { driver.cuEventDestroy(event); }};
}

StreamId StreamUses::id_of(CUstream stream) const {
  StreamId id = 0;
  driver_.require(driver_.cuStreamGetId(stream, &id), "cuStreamGetId", "stream");
  return id;
}

unsigned long long StreamUses::capture_of(CUstream stream) {
  int status = 0;
  unsigned long long capture = 0;
  driver_.require(driver_.cuStreamGetCaptureInfo(stream, &status, &capture),
      "cuStreamGetCaptureInfo", "stream");
  if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED) {
    throw Error(Status::invalid_argument, "stream: its capture has been invalidated");
  }
  // If the driver can say that a capture has ended, has_ended() finds out, and nothing has to
  // be done here, under the lock.
  if (status == CU_STREAM_CAPTURE_STATUS_NONE && driver_.cuEventElapsedTime != nullptr) return 0;

  const std::thread::id caller = std::this_thread::get_id();
  const std::lock_guard lock(mutex_);
  if (status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    Capture& seen = captures_.try_emplace(capture, Capture{stream, caller, nullptr}).first->second;
    if (!seen.event) {
      std::erase_if(
          captures_, [&](const auto& one) { return one.second.event && has_ended(one.second); });
      Event event = make_event();
      driver_.require(driver_.cuEventRecord(event.get(), stream), "cuEventRecord", "stream");
      seen.event = std::move(event);
    }
    return capture;
  }

  // With an older driver it is a guess: a thread that works outside of a capture again has ended
  // its own capture, and so has the thread that captured this stream, if the stream has a handle
  // of its own.
  std::erase_if(captures_, [&](const auto& one) {
    return one.second.thread == caller ||
           (one.second.stream == stream && stream != CU_STREAM_PER_THREAD);
  });
  return 0;
}

// cuEventElapsedTime is the only question about an event in a capture that leaves the capture valid
// (H200, driver 580: cuEventQuery does not).
bool StreamUses::has_ended(const Capture& capture) const noexcept {
  if (driver_.cuEventElapsedTime == nullptr) return false;

  float none = 0;
  CUevent_st* const event = capture.event.get();
  return driver_.cuEventElapsedTime(&none, event, event) != CUDA_ERROR_CAPTURED_EVENT;
}

Event StreamUses::record(CUstream stream, StreamId id) {
  const std::lock_guard lock(mutex_);
  Event& event = events_[id];
  if (!event) {
    event = make_event();
    if (events_.size() > kWorthForgetting) {
      std::erase_if(
          events_, [&](const auto& one) { return one.first != id && is_over(one.second); });
    }
  }
  driver_.require(driver_.cuEventRecord(event.get(), stream), "cuEventRecord", "stream");
  return event;
}

void StreamUses::gather(CUstream stream) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, event] : events_) {
    if (!is_over(event)) {
      driver_.require(driver_.cuStreamWaitEvent(stream, event.get(), 0), "cuStreamWaitEvent");
    }
  }
}

bool StreamUses::may_be_captured() {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(captures_, [this](const auto& one) { return has_ended(one.second); });
    if (!captures_.empty()) return true;
  }

  int status = 0;
  unsigned long long capture = 0;
  return driver_.cuStreamGetCaptureInfo(CU_STREAM_LEGACY, &status, &capture) ==
             CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}
}  // namespace symm::cuda
