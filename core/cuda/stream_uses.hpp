// The streams of a device on which something of symm's memory is used, as
// far as symm knows. A stream is known by its identity, never by its handle:
// one handle means another stream in each thread (per-thread default
// streams), and another one after it was destroyed. A handle is therefore
// used only in the call it was given to, and what is kept is events.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "core/cuda/driver.hpp"

namespace symm::cuda {
// the context must be current where the last of them goes
using Event = std::shared_ptr<CUevent_st>;
using StreamId = unsigned long long;  // never given twice

class StreamUses {
 public:
  explicit StreamUses(const Driver& driver) : driver_(driver) {}
  StreamUses(StreamUses&&) = delete;

  // streams, of which it is worth while to forget those whose work is over
  static constexpr size_t kMany = 64;

  Event make_event() const;
  bool is_over(const Event& event) const noexcept {
    return !event || driver_.cuEventQuery(event.get()) != CUDA_ERROR_NOT_READY;
  }
  StreamId id_of(CUstream stream) const;  // not while it is under capture: the driver refuses that
  // The capture that the stream is in, 0 for none. Throws
  // Error(invalid_argument) if that has been invalidated.
  unsigned long long capture_of(CUstream stream);
  // Work was issued on `stream`, outside of a capture. Returns
  // an event behind it, which the next use may move on.
  Event record(CUstream stream) { return record(stream, id_of(stream)); }
  Event record(CUstream stream, StreamId id);
  // What is issued on `stream` next comes after all of these uses.
  void gather(CUstream stream);
  // May a stream of the device be under capture? Of captures on streams that nobody
  // shows to symm, only those on blocking streams are seen. Asking disturbs none.
  bool may_be_captured();

 private:
  const Driver& driver_;
  std::mutex mutex_;
  std::map<StreamId, Event> events_;
  struct Captured {
    CUstream stream;  // on which it was seen first, and by whom
    std::thread::id thread;
    Event event;  // in it
  };
  bool has_ended(const Captured& one) const noexcept;
  std::map<unsigned long long, Captured> captured_;  // by their numbers
};
}  // namespace symm::cuda
