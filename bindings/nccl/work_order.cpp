#include "bindings/nccl/work_order.hpp"

#include <cstdint>
#include <utility>

#include "bindings/nccl/driver.hpp"

namespace symm::nccl {
WorkOrder::~WorkOrder() {
  driver_.end_event(eager_.event);
  for (const Order& order : captures_) {
    driver_.end_event(order.event);
  }
}

bool WorkOrder::prepare() {
  if (eager_.event == nullptr) eager_.event = driver_.make_event();
  return eager_.event != nullptr;
}

WorkOrder::Order* WorkOrder::find(uint64_t capture) {
  if (capture == 0) return &eager_;
  for (Order& order : captures_) {
    if (order.capture == capture) return &order;
  }
  return nullptr;
}

WorkOrder::Order& WorkOrder::find_or_make(uint64_t capture) {
  if (Order* const found = find(capture)) return *found;
  Order made;
  if (captures_.size() == kCaptures) {
    made.event = captures_.front().event;
    captures_.pop_front();
  }
  made.capture = capture;
  return captures_.emplace_back(made);
}

bool WorkOrder::before_symm(uint64_t capture, void* stream) {
  Order* const order = find(capture);
  if (order == nullptr || !std::exchange(order->nccl_is_ahead, false)) return true;
  return driver_.wait(stream, order->event);
}

void WorkOrder::after_symm(uint64_t capture) { find_or_make(capture).symm_is_ahead = true; }

bool WorkOrder::must_wait_for_symm(uint64_t capture) {
  Order* const order = find(capture);
  return order != nullptr && std::exchange(order->symm_is_ahead, false);
}

void WorkOrder::after_nccl(uint64_t capture, void* stream) {
  Order& order = find_or_make(capture);
  if (order.event == nullptr) order.event = driver_.make_event();
  if (order.event == nullptr || !driver_.record(order.event, stream)) return;
  order.nccl_is_ahead = true;
}
}  // namespace symm::nccl
