// Collectives of one group, or of several that share scratch, run one
// after the other, in the order of the calls, whatever streams they are
// issued on. Between calls outside of captures, and between calls within
// one capture, this sees to it; between a captured graph and anything
// else, the user does, by replaying on a stream that is ordered with it.
#pragma once

#include <algorithm>

#include "core/base/timed_mutex.hpp"
#include "core/cuda/device.hpp"

namespace symm::cuda {
class StreamOrder {
 public:
  // `with`: that of a group with which this one shares scratch, or null.
  StreamOrder(std::shared_ptr<Device> device, const StreamOrder* with);
  ~StreamOrder();
  StreamOrder(StreamOrder&&) = delete;

  // A stream as it is during one call, for which the driver is asked once.
  struct Place {
    CUstream stream;
    unsigned long long capture;  // that the stream is in; 0: none
    StreamId id;                 // in a capture, of which the driver tells none, the handle
  };
  // Held by a call from before() to after().
  TimedMutex& turn() noexcept { return last_->turn; }
  // What is issued on `stream` next comes after what
  // was issued last. after() wants what it returns.
  Place before(CUstream stream);
  void after(const Place& place);
  // Work on `stream` that needs no order; remembered,
  // so that memory is not given back under it.
  void record_use(CUstream stream);
  // What is issued on `stream` next comes after all that
  // was issued on any stream, or in the same capture.
  void gather(CUstream stream);

 private:
  // Something of each capture, since any number may be under way. Nobody says when one
  // has ended, so the one that was silent longest is forgotten for a new one.
  template <typename Kept>
  class Captures {
   public:
    Kept& operator[](unsigned long long capture) {
      const auto found = std::find_if(
          kept_.begin(), kept_.end(), [=](const auto& one) { return one.first == capture; });
      if (found != kept_.end()) {
        std::rotate(found, found + 1, kept_.end());
      } else {
        if (kept_.size() == StreamUses::kMany) kept_.erase(kept_.begin());
        kept_.emplace_back(capture, Kept());
      }
      return kept_.back().second;
    }

   private:
    std::vector<std::pair<unsigned long long, Kept>> kept_;
  };

  Event record(const Place& place);
  void record_captured(const Place& place, Event& known);
  Place place_of(CUstream stream);
  void wait(const Place& place, const Event& event);

  // The last call of all groups that share scratch, outside of captures and in each.
  struct Call {
    Event event;
    StreamId stream = 0;
  };
  struct Last {
    TimedMutex turn;
    Call eager;
    Captures<Call> captured;
    Call& of(const Place& place) { return place.capture == 0 ? eager : captured[place.capture]; }
  };

  std::shared_ptr<Device> device_;
  std::shared_ptr<Last> last_;
  std::mutex mutex_;
  // that calls of this group outside of captures were issued on
  std::map<StreamId, Event> streams_;
  Captures<std::map<StreamId, Event>> captured_;
};

// Streams of our own, on which something goes beside what
// is issued on a stream, within its capture if it has one.
class SideStreams {
 public:
  explicit SideStreams(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  ~SideStreams();
  SideStreams(SideStreams&&) = delete;
  CUstream fork(CUstream stream);  // begins behind what is on `stream` by now
  // what is issued on `stream` next comes behind it, if something was forked since
  void join(CUstream stream);

 private:
  struct Side {
    CUstream stream = nullptr;
    Event event;
  };
  void order(CUstream before, CUstream after, const Event& event) const;

  std::shared_ptr<Device> device_;
  std::vector<Side> sides_;  // one for each capture that goes on, and one for none
  const Side* forked_ = nullptr;
};
}  // namespace symm::cuda
