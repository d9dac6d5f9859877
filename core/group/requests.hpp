// The requests of a group, and the threads that make their calls.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "core/base/error.hpp"
#include "core/base/futex.hpp"
#include "core/base/revocation.hpp"
#include "core/group/request.hpp"

namespace symm {
// Which calls of a group a call keeps its order with. What one rank asks for in one order begins in
// that order, so that all ranks make their collectives alike.
enum class RequestOrder {
  // Calls of several ranks at once: collectives, barriers, exchanges. One at a time.
  collective,
  // Copies to and from the blocks of other ranks, signals and words that are written. One at a
  // time.
  one_sided,
  // Calls that wait for what one other rank does, and may wait for long: messages, whose order is
  // that in which they were posted, and waits for signals and words. Each has a thread.
  waiting
};
inline constexpr size_t kOrders = 2;

// At most one call of a queue is ready or at work; those behind it wait. A thread
// that has ended such a call makes the next one of its queue ready. Threads take what is ready, and
// leave after kIdleMs without work. A thread is begun where more is ready than there are threads
// without work, so that nothing that is ready waits for a call that another rank is late for.
class Requests : public std::enable_shared_from_this<Requests> {
 public:
  // Requests of a group in RequestOrder::waiting that are not done.
  static constexpr size_t kMostWaiting = 256;

  // Begins a call. `post`, if there is one, is run before this returns, when nothing else can fail
  // any more; what it throws, this throws, and there is no request. Throws Error(out_of_memory) if
  // kMostWaiting calls wait already.
  std::shared_ptr<Request> start(RequestOrder order, const char* call, Request::Work work,
      const std::function<void()>& post = nullptr);

  // Called when this rank begins to finalize the group. From now on a request in
  // RequestOrder::waiting that does not succeed ends with `failure`, unless the group is revoked:
  // what else would end it, a rank that leaves or a deadline, depends on who is first.
  void finalize(Failure failure, std::shared_ptr<const Revocation> revocation);
  // Whether the calling thread is in such a request, whose failure is then none of the group's.
  bool is_left_over() const noexcept;

  // Whether no request of this order is under way. Two words tell, for small calls that block.
  bool is_settled(RequestOrder order) const noexcept {
    const Queue& queue = queues_[static_cast<size_t>(order)];
    const uint32_t made = queue.made.load(std::memory_order_relaxed);
    return queue.over.load(std::memory_order_acquire) == made;
  }
  // Called before a call that blocks: waits until the calls of its order are over that were made
  // before it. Throws OutOfTurn, or Error(timeout) if it was only to look.
  void settle(RequestOrder order, const char* call, uint64_t timeout_ms);

 private:
  struct Entry {
    RequestOrder order;
    std::shared_ptr<Request> request;
    Request::Work work;
  };
  using Entries = std::list<Entry>;
  struct Queue {
    Entries behind;
    bool is_busy = false;
    Word made{0};
    Word over{0};
    std::weak_ptr<const Request> last;  // of those that were made
  };

  uint64_t make_waiting(const Request::Work& work) const;
  void require_thread(RequestOrder order);  // with the lock, as the next one
  struct Sleeper;
  void wake_if_needed() noexcept;
  void unlist(Sleeper& self) noexcept;
  bool take(Entries& mine, Sleeper& self);
  void free_place(RequestOrder order) noexcept;
  void leave_queue(RequestOrder order) noexcept;
  bool await_work(Entries& mine);
  bool is_last_done(const Queue& queue);
  void work() noexcept;
  static bool is_queued(RequestOrder order) noexcept { return order != RequestOrder::waiting; }
  Queue& queue_of(RequestOrder order) noexcept { return queues_[static_cast<size_t>(order)]; }

  std::mutex mutex_;
  std::array<Queue, kOrders> queues_;
  Entries ready_;
  size_t threads_ = 0;
  size_t waiting_ = 0;  // requests in RequestOrder::waiting
  size_t at_work_ = 0;  // threads that make a call
  size_t asleep_ = 0;   // threads in the list of those that sleep
  Sleeper* sleepers_ = nullptr;

  // Nothing of these changes once the first one is set.
  std::atomic<bool> is_finalized_{false};
  Failure finalized_;
  std::shared_ptr<const Revocation> revocation_;
};
}  // namespace symm
