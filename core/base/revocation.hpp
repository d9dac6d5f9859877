// Why a group no longer works: the failure that ends every wait of the group on every rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/futex.hpp"
#include "core/base/page.hpp"

namespace symm {
// The failure that revoked a group, and the ranks that have left the group. Set by the monitor or
// any thread, read by every wait.
//
// All ranks that live come to report the same failure, in whatever order news reaches them, and
// whether or not their clocks agree. Revocation.AllThatLiveComeToSayTheSame (wait_test.cpp) tries
// every order of the news in a small group. The proof:
//
// Definitions.
//   Cause: the failure that a rank reports.
//   Same: two failures are the same if status and rank are equal.
//   Order: failure X comes before failure Y if X was noticed earlier, or at the same moment and
//     has the lower rank. Each failure carries the time by the clock of the rank that noticed it.
//     Ranks that see one death may hold different times for it.
//   Decide: a rank finds a failure that others do not see: it aborts, its call fails, or it alone
//     can no longer hear a peer.
//   See: a rank notices the death of another. Every living rank sees every death.
//   Adopt: a rank takes a failure as its cause. It adopts the first failure that it hears of, and
//     later each other failure that comes before its cause. If it hears of its cause again, it
//     keeps the earlier time.
//   Tell: a rank sends its cause to all other ranks.
//
// Invariants.
//   I1. A rank replaces its cause only by a failure that comes before it. So causes come to rest.
//   I2. A rank that adopts its own decision tells. A rank that sees a death and knows of no other
//       failure does not tell.
//   I3. If a rank knows of two failures, it has told its cause, or a living rank from which it
//       has the cause told it. `told_` keeps this: it is false only for a death that this rank
//       saw and did not tell, and after the death of the rank `told_by_` from which the cause
//       came, which may not have reached all. The next failure to arrive, or that death itself,
//       makes this rank tell.
//
// Steps. Suppose that A and B live and have come to rest with different causes, X at A and Y at
// B, and that X, with the time that A holds, comes before Y.
//   1. No living rank told X with that time: B would have adopted X (I1).
//   2. So A did not decide X, for it would have told X (I2).
//   3. A does not know of two failures, for then A or another living rank told X (I3).
//   4. So A does not have X from another rank. If that rank lives, it told X. If it died, A saw its
//      death and knows of two failures.
//   5. So A saw X itself (2, 4): X is a death. B saw that death, too, and knows of Y.
//   6. So B knows of two failures. B, or a living rank from which B has Y, told Y (I3).
//   7. So A heard of Y and knows of two failures, which contradicts step 3.
//
// The steps take it that a cause is told with the time that its rank holds at the end. The time
// of a cause may move to an earlier one after it was told, when the rank hears of the same failure
// again; nobody tells that.
class Revocation {
 public:
  // `page`: the page on which this rank of the group shows the failure, if it has one.
  explicit Revocation(int size, std::shared_ptr<const Page> page = nullptr);

  bool revoked() const noexcept { return revoked_.load(std::memory_order_acquire); }

  struct Effect {
    bool counts = false;  // the failure is the cause now, and every waiter was woken
    bool tell = false;    // the caller must tell failure() to all other ranks
  };
  // `peer`: by its number in the mesh, the rank that told the failure, or if `seen`, the rank
  // whose death this process saw; -1 for a decision of this rank.
  Effect revoke(Failure failure, int peer = -1, bool seen = false);
  // The failure as this rank is to read it; status ok if the group is not revoked. To a rank that
  // came too late it says so, not that the rank did not come.
  Failure failure() const;
  // The cause in the form in which it is told to other ranks.
  Failure cause() const;
  void throw_if_revoked() const;

  // `rank` released the group in good order: only waits for that rank fail.
  void depart(int rank);
  bool departed(int rank) const noexcept;

  // This rank has finalized the group, and nobody answers it any more: waits for ranks that still
  // go on end as if all had left. The group is not revoked, and no other rank is told.
  void finalize() noexcept;
  bool finalized() const noexcept { return finalized_.load(std::memory_order_acquire); }

  // Calls `event` once now, and at each revocation and departure until the returned object is
  // destroyed. It must be quick and not call back.
  std::shared_ptr<void> listen(std::function<void()> event);

  // The group's event counter: grows with each revocation and departure, and when the group is
  // finalized. Waiters sleep on it
  // besides their own word.
  const Word& events() const noexcept { return events_; }

  const std::shared_ptr<const Page>& page() const noexcept { return page_; }

  // Counts the waits that did not end while they spun, for statistics.
  void count_sleep(uint64_t ns) const noexcept {
    sleeps_.fetch_add(1, std::memory_order_relaxed);
    slept_ns_.fetch_add(ns, std::memory_order_relaxed);
  }
  uint64_t sleeps() const noexcept { return sleeps_.load(std::memory_order_relaxed); }
  uint64_t slept_ns() const noexcept { return slept_ns_.load(std::memory_order_relaxed); }

 private:
  struct Listeners;
  void adopt(Failure failure, int peer, bool seen);  // with the lock
  void announce() noexcept;

  std::atomic<bool> revoked_{false};
  std::atomic<bool> finalized_{false};
  Word events_{0};
  const std::shared_ptr<const Page> page_;
  mutable std::mutex mutex_;
  Failure failure_;    // the cause
  int told_by_ = -1;   // the peer from which the cause came; -1: none
  bool told_ = false;  // this rank or told_by_ has told the cause
  std::shared_ptr<Listeners> listeners_;
  std::vector<std::atomic<bool>> departed_;
  mutable std::atomic<uint64_t> sleeps_{0};
  mutable std::atomic<uint64_t> slept_ns_{0};
};
}  // namespace symm
