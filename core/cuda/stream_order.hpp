// Collectives of one group, or of several that share scratch, run one after the other, in the order of the calls, whatever
// streams they are issued on. Between calls outside of captures, and between calls within one capture, this sees to it; between a
// captured graph and anything else, the user does, by replaying on a stream that is ordered with it.
#pragma once

#include <memory>
#include "core/base/timed_mutex.hpp"
#include "core/cuda/device.hpp"

namespace symm::cuda {
class StreamOrder {
 public:
  // `with`: that of a group with which this one shares scratch, or null.
  StreamOrder(std::shared_ptr<Device> device, const StreamOrder* with);
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // A stream as it is during one call, for which the driver is asked once.
  struct Place {
    CUstream stream;
    unsigned long long capture;  // that the stream is in; 0: none
    StreamId id;                 // 0 in a capture
  };
  // Held by a call from before() to after().
  TimedMutex& turn() noexcept { return last_->turn; }
  // What is issued on `stream` next comes after what was issued last. after() wants what it returns.
  Place before(CUstream stream);
  void after(const Place& place);
  // Work on `stream` that needs no order; remembered, so that memory is not given back under it.
  void record_use(CUstream stream);
  // What is issued on `stream` next comes after all that was issued on any stream, or in the same capture.
  void gather(CUstream stream);
 private:
  Event record(CUstream stream, StreamId id);
  Place place_of(CUstream stream);
  void await_captured(const Place& place);

  // The last call of all groups that share scratch.
  struct Last {
    TimedMutex turn;
    struct {
      Event event;
      StreamId stream = 0;
    } eager;
    std::mutex mutex;
    // The driver tells no identity of a stream under capture; within one capture a handle is as good.
    struct {
      Event event;
      CUstream stream = nullptr;
      unsigned long long capture = 0;  // 0: none yet
    } captured;
  };

  std::shared_ptr<Device> device_;
  std::shared_ptr<Last> last_;
  std::mutex mutex_;
  std::map<StreamId, Event> streams_;  // that calls of this group outside of captures were issued on
};
}  // namespace symm::cuda
