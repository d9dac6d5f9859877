// The order between symm's work and NCCL's on one communicator, as NCCL keeps one between its own
// calls on different streams: outside of captures, and in each capture by itself. Work of one
// capture is never ordered with that of another, nor with what is outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "bindings/nccl/driver.hpp"

namespace symm::nccl {
class WorkOrder {
 public:
  // Captures that may take turns on a communicator. Of the oldest beyond these, the order is
  // forgotten; symm itself knows as many (symm.h, Capture).
  static constexpr size_t kCaptures = 64;

  // `driver` outlives this.
  explicit WorkOrder(const Driver& driver) : driver_(driver) {}
  ~WorkOrder();
  WorkOrder(const WorkOrder&) = delete;
  WorkOrder& operator=(const WorkOrder&) = delete;

  // Makes the event for work outside of captures; whether there is one to be had.
  bool prepare();

  // Before work of symm on `stream`, which is in `capture` (0: in none): orders it behind NCCL's
  // last work. False: a call of the driver failed.
  bool before_symm(uint64_t capture, void* stream);
  void after_symm(uint64_t capture);

  // Whether work of NCCL in `capture` must be ordered behind symm's, which the caller then does.
  bool must_wait_for_symm(uint64_t capture);
  // NCCL has issued work on `stream`.
  void after_nccl(uint64_t capture, void* stream);

 private:
  struct Order {
    uint64_t capture = 0;
    // NCCL's last work.
    void* event = nullptr;
    // NCCL has issued work behind which symm has not been ordered.
    bool nccl_is_ahead = false;
    // symm has issued work behind which NCCL has not been ordered.
    bool symm_is_ahead = false;
  };

  Order* find(uint64_t capture);
  Order& find_or_make(uint64_t capture);

  const Driver& driver_;
  Order eager_;
  // The oldest first.
  std::deque<Order> captures_;
};
}  // namespace symm::nccl
