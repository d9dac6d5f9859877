// Collectives of one group, or of several that share scratch, run one after the other, in the
// order of the calls, on whatever streams they are issued. Calls outside of captures are ordered
// among each other, and so are calls within one capture. The user orders a captured graph with
// everything else, by replaying it on a stream that is ordered with that.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/timed_mutex.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/stream_uses.hpp"

namespace symm::cuda {
class StreamOrder {
 public:
  // `with`: the order of a group with which this one shares scratch, or null.
  StreamOrder(std::shared_ptr<Device> device, const StreamOrder* with);
  ~StreamOrder();
  StreamOrder(StreamOrder&&) = delete;

  // The state of a stream during one call, for which the driver is asked once.
  struct CallStream {
    CUstream stream;
    // The capture that the stream is in; 0: none.
    unsigned long long capture;
    // In a capture the handle, since the driver does not tell the identity then.
    StreamId id;
  };

  // Held by a call from before() to after().
  TimedMutex& turn() noexcept { return last_->turn; }

  // Orders the next work on `stream` after the work that was issued last.
  CallStream before(CUstream stream);
  // Takes what before() has returned.
  void after(const CallStream& on);

  // Records work on `stream` that needs no order, so that memory is not freed under it.
  void record_use(CUstream stream);

  // Orders the next work on `stream` after all work that was issued on any stream, or,
  // in a capture, in that capture.
  void gather(CUstream stream);

 private:
  // Keeps something for each capture, since any number may be under way. It is not known when a
  // capture has ended, so the one that was silent longest is forgotten for a new one.
  template <typename Kept>
  class Captures {
   public:
    Kept& operator[](unsigned long long capture) {
      const auto found = std::find_if(
          kept_.begin(), kept_.end(), [=](const auto& one) { return one.first == capture; });
      if (found != kept_.end()) {
        std::rotate(found, found + 1, kept_.end());
      } else {
        if (kept_.size() == StreamUses::kWorthForgetting) kept_.erase(kept_.begin());
        kept_.emplace_back(capture, Kept());
      }
      return kept_.back().second;
    }

   private:
    std::vector<std::pair<unsigned long long, Kept>> kept_;
  };

  Event record(const CallStream& on);
  void record_captured(const CallStream& on, Event& known);
  CallStream call_stream(CUstream stream);
  void wait(const CallStream& on, const Event& event);

  struct Call {
    Event event;
    StreamId stream = 0;
  };
  // The last calls of all groups that share scratch, outside of captures and in each capture.
  struct LastCalls {
    TimedMutex turn;
    Call eager;
    Captures<Call> captured;
    Call& last(const CallStream& on) { return on.capture == 0 ? eager : captured[on.capture]; }
  };

  std::shared_ptr<Device> device_;
  std::shared_ptr<LastCalls> last_;
  std::mutex mutex_;
  // The streams on which calls of this group were issued, outside of captures and in each.
  std::map<StreamId, Event> streams_;
  Captures<std::map<StreamId, Event>> captured_;
};

// Streams of symm's own, on which work goes beside what is issued on a stream, within the capture
// of that stream if it has one.
class SideStreams {
 public:
  explicit SideStreams(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~SideStreams();
  SideStreams(SideStreams&&) = delete;

  // A stream that begins behind what is on `stream` by now.
  CUstream fork(CUstream stream);
  // Orders the next work on `stream` after the work that was forked since the last join().
  void join(CUstream stream);

 private:
  struct Side {
    CUstream stream = nullptr;
    Event event;
  };

  void order(CUstream before, CUstream after, const Event& event) const;

  std::shared_ptr<Device> device_;
  // One for each capture that is under way, and one for no capture.
  std::vector<Side> sides_;
  const Side* forked_ = nullptr;
};
}  // namespace symm::cuda
