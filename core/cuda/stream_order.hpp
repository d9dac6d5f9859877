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

  // What is issued on `stream` next comes after what was issued last. Returns the capture that the stream is in, 0 for none,
  // which after() wants.
  unsigned long long before(CUstream stream);
  void after(CUstream stream, unsigned long long capture);
  // Work on `stream` that needs no order; remembered, so that memory is not given back under it.
  void record_use(CUstream stream);

 private:
  unsigned long long capture_of(CUstream stream) const;  // 0: none

  struct Last {
    CUevent event = nullptr;
    CUstream stream = nullptr;
    bool any = false;
  };
  std::shared_ptr<Device> device_;
  Last eager_;                      // the event is the device's
  Last captured_;                   // the event is ours
  unsigned long long capture_ = 0;  // the capture that captured_ belongs to
};

}  // namespace symm::cuda
