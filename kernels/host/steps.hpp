// The steps of one call. The first announcement is the entry, unless the executor has entered
// the call, and the others are arrivals; so a short call costs one step.
#pragma once

#include "kernels/host/execution.hpp"

namespace symm::host {
class Steps {
 public:
  explicit Steps(const Execution& x) noexcept
      : sync_(x.sync), size_(x.size), entered_(x.plan.entered) {}

  // Tells all ranks that this rank's writes are visible and its reads finished.
  void announce() {
    if (entered_) {
      sync_.arrive();
      arrived_ = true;
    } else {
      sync_.enter(nullptr, 0);
      entered_ = true;
    }
  }
  // Waits until `peer` has announced as often as this rank.
  void await(int peer) {
    if (arrived_) {
      sync_.await(peer);
    } else {
      sync_.await_entry(peer);
    }
  }
  void await_all() {
    for (int peer = 0; peer < size_; ++peer) {
      await(peer);
    }
  }

 private:
  Sync& sync_;
  int size_;
  bool entered_;
  bool arrived_ = false;
};
}  // namespace symm::host
