// Keeps the order of a group's requests, and begins and ends the threads that make them.
#include "core/group/requests.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/process.hpp"
#include "core/base/revocation.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/base/wait.hpp"
#include "core/group/request.hpp"

namespace symm {
namespace {
// A thread without work stays so long, since a program that has made one request makes more.
constexpr uint64_t kIdleMs = 1'000;

// The requests that the calling thread works for, and those whose call it makes in
// RequestOrder::waiting.
thread_local const Requests* worked_for = nullptr;
thread_local const Requests* waited_for = nullptr;
}  // namespace

void Requests::require_thread(RequestOrder order) {
  if (order == RequestOrder::waiting && waiting_ == kMostWaiting) {
    throw Error(Status::out_of_memory,
        format("options.request: %zu requests of this group wait for other ranks already, which is "
               "the most; symm_messages() and symm_wait_signals() wait for many things in one",
            kMostWaiting));
  }
  if (ready_.size() + at_work_ < threads_) return;
  process::start_thread("symm-request", [self = shared_from_this()] { self->work(); });
  ++threads_;
}

std::shared_ptr<Request> Requests::start(
    RequestOrder order, const char* call, Request::Work work, const std::function<void()>& post) {
  const auto request = std::make_shared<Request>(call);
  if (order == RequestOrder::waiting) {
    // The thread that runs this keeps these requests.
    work = [this, call_it = std::move(work)] { return make_waiting(call_it); };
  }
  Entries one;
  one.push_back({order, request, std::move(work)});

  {
    const std::lock_guard lock(mutex_);
    const bool is_behind = is_queued(order) && queue_of(order).is_busy;
    if (!is_behind) require_thread(order);
    if (post) post();

    if (is_queued(order)) {
      queue_of(order).made.fetch_add(1);
      queue_of(order).is_busy = true;
      queue_of(order).last = request;
    } else {
      ++waiting_;
    }
    Entries& to = is_behind ? queue_of(order).behind : ready_;
    to.splice(to.end(), one);
    if (!is_behind) wake_if_needed();
  }
  return request;
}

void Requests::finalize(Failure failure, std::shared_ptr<const Revocation> revocation) {
  const std::lock_guard lock(mutex_);
  if (is_finalized_.load(std::memory_order_relaxed)) return;
  finalized_ = std::move(failure);
  revocation_ = std::move(revocation);
  is_finalized_.store(true, std::memory_order_release);
}

bool Requests::is_left_over() const noexcept {
  return waited_for == this && is_finalized_.load(std::memory_order_acquire);
}

uint64_t Requests::make_waiting(const Request::Work& work) const {
  waited_for = this;
  try {
    const uint64_t value = work();
    waited_for = nullptr;
    return value;
  } catch (...) {
    waited_for = nullptr;
    const bool is_over = is_finalized_.load(std::memory_order_acquire);
    if (is_over && !revocation_->revoked()) throw Error(finalized_);
    throw;
  }
}

void Requests::settle(RequestOrder order, const char* call, uint64_t timeout_ms) {
  Queue& state = queue_of(order);
  const uint32_t made = state.made.load(std::memory_order_relaxed);
  if (reached(state.over, made)) return;
  // A call of the queue itself, which a thread of this object makes.
  if (worked_for == this) return;
  if (is_last_done(state)) return;

  const auto look = [&] { return reached(state.over, made); };
  if (await_change(state.over, Deadline::after_ms(timeout_ms), look)) return;
  if (timeout_ms == Deadline::kNow) {
    throw Error(Status::timeout, format("%s: requests that were made before are not done", call));
  }
  throw OutOfTurn(Status::timeout,
      format("%s: requests that were made before are not done within %lu ms", call, timeout_ms));
}

// Whether the program may have seen that the queue is empty, although it is not counted yet.
bool Requests::is_last_done(const Queue& queue) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<const Request> last = queue.last.lock();
  return last == nullptr || last->is_done();
}

// A thread without work, which sleeps on a word of its own.
struct Requests::Sleeper {
  Word news{0};
  Sleeper* next = nullptr;
  bool is_listed = false;
};

// With the lock, when something has become ready. Threads that neither sleep nor make a call look
// before they sleep, so as many calls find their threads. For one more the thread is woken that has
// slept least: those that a burst of calls has left sleep on until they go.
void Requests::wake_if_needed() noexcept {
  if (sleepers_ == nullptr || ready_.size() <= threads_ - at_work_ - asleep_) return;
  Sleeper& one = *sleepers_;
  unlist(one);
  tell_change(one.news);
}

void Requests::unlist(Sleeper& self) noexcept {
  if (!self.is_listed) return;
  --asleep_;
  Sleeper** at = &sleepers_;
  while (*at != &self) {
    at = &(*at)->next;
  }
  *at = self.next;
  self.is_listed = false;
}

// Takes what is ready, or lists the thread among those that sleep. One that is listed takes nothing
// from the thread that was woken for it.
bool Requests::take(Entries& mine, Sleeper& self) {
  if (self.is_listed) return false;
  if (ready_.empty()) {
    self.next = sleepers_;
    sleepers_ = &self;
    self.is_listed = true;
    ++asleep_;
    return false;
  }
  mine.splice(mine.end(), ready_, ready_.begin());
  ++at_work_;
  return true;
}

// Waits for something to do. False: there was nothing for long, and the thread is not counted any
// more.
bool Requests::await_work(Entries& mine) {
  Sleeper self;
  const auto look = [&] {
    const std::lock_guard lock(mutex_);
    return take(mine, self);
  };
  if (await_change(self.news, Deadline::after_ms(kIdleMs), look)) return true;

  const std::lock_guard lock(mutex_);
  if (take(mine, self)) return true;
  unlist(self);
  --threads_;
  return false;
}

// A program that has seen that a call is over may begin another one in its place.
void Requests::free_place(RequestOrder order) noexcept {
  if (is_queued(order)) return;
  const std::lock_guard lock(mutex_);
  --waiting_;
}

void Requests::leave_queue(RequestOrder order) noexcept {
  const std::lock_guard lock(mutex_);
  --at_work_;
  if (!is_queued(order)) return;
  Queue& state = queue_of(order);
  state.is_busy = !state.behind.empty();
  if (state.is_busy) ready_.splice(ready_.begin(), state.behind, state.behind.begin());
}

void Requests::work() noexcept {
  worked_for = this;
  Entries mine;
  while (await_work(mine)) {
    Entry& entry = mine.front();
    const auto free_its_place = [&] { free_place(entry.order); };
    const auto leave = [&] {
      leave_queue(entry.order);
      // A blocking call of that order goes on now, as does whoever waits for the request.
      if (is_queued(entry.order)) tell_change(queue_of(entry.order).over);
    };
    entry.request->run(entry.work, {free_its_place, leave});
    mine.clear();
  }
}
}  // namespace symm
