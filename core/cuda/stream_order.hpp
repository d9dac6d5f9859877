// SPDX-License-Identifier: Apache-2.0
//
// Collectives of one group run one after the other, in the order of the calls, whatever streams they are issued on: they share
// scratch. Between calls outside of captures, and between calls within one capture, this sees to it; between a captured graph and
// anything else the user does, by replaying on a stream that is ordered with it.
#pragma once

#include <memory>

#include "core/cuda/device.hpp"

namespace symm::cuda {

class StreamOrder {
 public:
  explicit StreamOrder(std::shared_ptr<Device> device);
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // A stream as it is during one call, for which the driver is asked once.
  struct Place {
    CUstream stream;
    unsigned long long capture;  // that the stream is in; 0: none
    StreamId id;                 // 0 in a capture
  };
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

  std::shared_ptr<Device> device_;
  std::mutex mutex_;
  std::map<StreamId, Event> streams_;  // that calls outside of captures were issued on
  struct {
    Event event;
    StreamId stream = 0;
  } eager_;
  // The driver tells no identity of a stream under capture; within one capture a handle is as good.
  struct {
    Event event;
    CUstream stream = nullptr;
    unsigned long long capture = 0;  // 0: none yet
  } captured_;
};

}  // namespace symm::cuda
