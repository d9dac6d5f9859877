// The streams of a device on which memory of symm is used, as far as symm knows.
//
// A stream is known by its identity, never by its handle: one handle means another stream in each
// thread (per-thread default streams), and another one after the stream was destroyed. So a handle
// is used only in the call to which it was given, and what is kept is events.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "core/cuda/driver.hpp"

namespace symm::cuda {
// The context must be current where the last reference goes.
using Event = std::shared_ptr<CUevent_st>;
// Never given twice.
using StreamId = unsigned long long;

class StreamUses {
 public:
  explicit StreamUses(const Driver& driver) : driver_(driver) {}
  StreamUses(StreamUses&&) = delete;

  // With more streams than this it is worth while to forget those whose work is over.
  static constexpr size_t kWorthForgetting = 64;

  Event make_event() const;
  bool is_over(const Event& event) const noexcept {
    return !event || driver_.cuEventQuery(event.get()) != CUDA_ERROR_NOT_READY;
  }

  // The stream must not be under capture: the driver refuses that.
  StreamId id_of(CUstream stream) const;
  // The capture that the stream is in, 0 for none. Throws Error(invalid_argument) if it has been
  // invalidated.
  unsigned long long capture_of(CUstream stream);

  // Records that work was issued on `stream`, outside of a capture. Returns an event behind the
  // work, which the next use may move on.
  Event record(CUstream stream) { return record(stream, id_of(stream)); }
  Event record(CUstream stream, StreamId id);

  // Orders the next work on `stream` after all recorded uses.
  void gather(CUstream stream);

  // May a stream of the device be under capture? Of captures on streams that symm has never been
  // given, only those on blocking streams are seen. Asking disturbs no capture.
  bool may_be_captured();

 private:
  struct Capture {
    // The stream on which the capture was seen first, and the thread that saw it.
    CUstream stream;
    std::thread::id thread;
    // An event in the capture.
    Event event;
  };
  bool has_ended(const Capture& capture) const noexcept;

  const Driver& driver_;
  std::mutex mutex_;
  std::map<StreamId, Event> events_;
  // By their numbers.
  std::map<unsigned long long, Capture> captures_;
};
}  // namespace symm::cuda
