// The only place that waits. Every wait has a deadline, and every wait on another rank
// ends early when the group is revoked.
//
// A word on which ranks wait is a 32-bit counter with one writer that only
// grows (compared as a signed difference, so that it may wrap). A waiter
// spins for a while, then registers itself in the word's waiter byte and
// sleeps in the kernel on the word and on the group's event counter at
// once (futex_waitv; in 1 ms slices where the kernel lacks it). The writer
// stores the word, and only if it then sees a waiter pays for a wake-up.
#pragma once

#include <poll.h>
#include <sched.h>

#include <atomic>
#include <bitset>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/page.hpp"

namespace symm {
using Word = std::atomic<uint32_t>;
// number of sleeping threads of one rank; written by that rank only
using Waiter = std::atomic<uint8_t>;

// A point in time (CLOCK_MONOTONIC) after which a wait gives up.
class Deadline {
 public:
  static constexpr uint64_t kInfinite = UINT64_MAX;
  static constexpr uint64_t kNow = UINT64_MAX - 1;  // of after_ms(): it has passed
  static Deadline after_ms(uint64_t milliseconds) noexcept;
  static Deadline never() noexcept { return Deadline(kInfinite); }
  auto operator<=>(const Deadline&) const noexcept =
      default;  // NOLINT(modernize-use-nullptr): false alarm of clang-tidy 14
  bool expired() const noexcept;
  uint64_t remaining_ns() const noexcept;  // 0 when expired, kInfinite for never()
  int remaining_ms() const noexcept;       // for poll(): rounded up, -1 for never(), capped at 2^30
 private:
  explicit Deadline(uint64_t ns) noexcept : ns_(ns) {}
  uint64_t ns_;
};

// Of a deadline in milliseconds; UINT64_MAX for one that never comes.
constexpr uint64_t nanoseconds_of(uint64_t timeout_ms) noexcept {
  return timeout_ms > UINT64_MAX / 1'000'000 ? UINT64_MAX : timeout_ms * 1'000'000;
}

// A deadline whose clock starts when it is first asked for:
// reading the clock would cost a fifth of a small collective,
// and a wait that succeeds while it spins never needs it.
class LazyDeadline {
 public:
  explicit LazyDeadline(uint64_t timeout_ms) noexcept : timeout_ms_(timeout_ms) {}
  Deadline get() noexcept {
    if (!deadline_) deadline_ = Deadline::after_ms(timeout_ms_);
    return *deadline_;
  }
  uint64_t timeout_ms() const noexcept { return timeout_ms_; }

 private:
  uint64_t timeout_ms_;
  std::optional<Deadline> deadline_;
};

// Why a group no longer works, and which of its ranks have
// left. Set by the monitor or any thread, read by every wait.
//
// Of several failures the one that was noticed first counts, of two at one moment that
// of the lower rank. Why all ranks that live come to report the same, whatever they
// hear in which order, and whether or not their clocks agree:
//   1. A rank adopts only what comes before its cause in that
//      order, so what it reports falls, and comes to rest.
//   2. Who decides on a failure tells all others, as does who alone sees that it can
//      hear a peer no more. Who sees a death tells nobody, for all see it, until it
//      hears of another failure too; then it tells all others its cause, unless it has
//      that from a rank, which told all.
//   3. Should that rank die, it may not have told all:
//      then who has its cause from it tells them.
//   4. Let A and B live, have come to rest with X before Y, and X be another failure
//      than Y. Nobody who lives told X to all, for B would have adopted it; so A saw X
//      itself, a death, and heard of nothing else since (2, 3). But B saw that death,
//      too, and knows Y: with the second of these it told all others its cause, or had
//      that from one who did; A heard that, and answered with X, unless it was X, by a
//      clock of B's. Then B adopted what came before that from somebody who told it to
//      all, A among them, and again A answered.
class Revocation {
 public:
  // `page`: of this rank of the group, where it has one to show.
  explicit Revocation(int size, std::shared_ptr<const Page> page = nullptr);

  bool revoked() const noexcept { return revoked_.load(std::memory_order_acquire); }
  // `peer` is by its own number in the mesh: who said so
  // to all, or if `seen`, whose death this process saw.
  struct Effect {
    bool counts = false;  // it is the cause now, and every waiter was woken
    bool tell = false;    // failure() is to be told to all others
  };
  Effect revoke(Failure failure, int peer = -1, bool seen = false);
  Failure failure() const;  // status ok if not revoked
  void throw_if_revoked() const;

  // `rank` released the group in good order: only waits for that rank fail.
  void depart(int rank);
  bool departed(int rank) const noexcept;

  // Have `event` called at each event of the above, and once now, until the returned
  // object goes. It must be quick and not call back.
  std::shared_ptr<void> listen(std::function<void()> event);

  // Grows with every event of the above; waiters sleep on it besides their own word.
  const Word& events() const noexcept { return events_; }

  const std::shared_ptr<const Page>& page() const noexcept { return page_; }

  // Waits that did not end while they spun, for statistics.
  void count_sleep(uint64_t ns) const noexcept {
    sleeps_.fetch_add(1, std::memory_order_relaxed);
    slept_ns_.fetch_add(ns, std::memory_order_relaxed);
  }
  uint64_t sleeps() const noexcept { return sleeps_.load(std::memory_order_relaxed); }
  uint64_t slept_ns() const noexcept { return slept_ns_.load(std::memory_order_relaxed); }

 private:
  void announce() noexcept;
  struct Listeners;
  std::atomic<bool> revoked_{false};
  Word events_{0};
  const std::shared_ptr<const Page> page_;
  mutable std::mutex mutex_;
  Failure failure_;
  int told_by_ = -1;   // the cause
  bool told_ = false;  // by this rank or told_by_, to all
  std::shared_ptr<Listeners> listeners_;
  std::vector<std::atomic<bool>> departed_;
  mutable std::atomic<uint64_t> sleeps_{0}, slept_ns_{0};
};

using Processors = std::bitset<CPU_SETSIZE>;  // those beyond are not counted
Processors usable_processors();               // by the calling thread

// of a thread that asks for progress; it may go to sleep after the end
enum class Polling { begins, ends, sleeps };

// How long to look before sleeping. SYMM_SPIN, a number of spins, overrides.
struct SpinPolicy {
  uint32_t spins = 0;   // looks in a row
  uint32_t yields = 0;  // then looks with the processor offered to others in between
  // `processors`: those that any of the ranks may
  // use. A launcher often binds each rank to its own.
  static SpinPolicy for_ranks(int ranks, const Processors& processors, bool far = false);
};

// How a wait ended when it did not succeed.
enum class WaitEnd { reached, timed_out, peer_departed, revoked };

// Who pays for the writer not missing a waiter. Writer and waiter
// each store one word and then read the other's, and one of them
// must see the other's store, for which both need a full barrier.
enum class Fencing {
  symmetric,  // both have one
  // The waiter, which is about to sleep anyway, has the kernel put
  // one into all processes (membarrier); the writer, who comes by
  // in every call, has none, and need not wait until its store is
  // visible. Only where every possible writer is registered.
  asymmetric
};
// Registers this process as a writer. False where the kernel does not offer it.
bool register_for_asymmetric_fences() noexcept;

// Wait until word - target >= 0 (signed). `peer` is whose word it is. On `revoked` and
// `peer_departed` the word was looked at once more after the event, so data that was
// there in time is never lost. `what` it is for is shown to others while it sleeps.
WaitEnd wait_word(const Word& word, uint32_t target, Waiter& waiter, int peer,
    const Revocation& revocation, SpinPolicy spin, LazyDeadline& deadline,
    Fencing fencing = Fencing::symmetric, const char* what = "");

// Between two looks.
inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// What is waited for when it is no such counter: words of 64 bits, on which the kernel
// cannot let anybody sleep, or one of several. Who writes them rings: adds to a bell of
// its own, if the waiter byte says that somebody sleeps. The words are stored before
// the byte is read, and here the byte is stored before the words are read, all in one
// order (seq_cst), so no bell is missed.
class Predicate {  // something to call, which the caller keeps
 public:
  template <class Ask>
  Predicate(const Ask& ask) : of_(&ask), look_(in_a_row<Ask>) {}
  bool operator()() const { return look(1); }
  // So many times in a row, by one call.
  bool look(uint32_t times) const { return look_(of_, times); }

 private:
  template <class Ask>
  static bool in_a_row(const void* of, uint32_t times) {
    // copied: where it asks for a word, a look is a single load
    const Ask ask = *static_cast<const Ask*>(of);
    for (uint32_t i = 1;; ++i, cpu_relax()) {
      if (ask()) return true;
      if (i >= times) return false;
    }
  }
  const void* of_;
  bool (*look_)(const void*, uint32_t);
};
struct Condition {
  Predicate holds;
  Predicate unreachable;               // all who could bring it about have left
  std::span<const Word* const> bells;  // of all of them
  // false: others write who do not ring, so it is looked at every millisecond
  bool all_ring = true;
  int peer = -1;  // this and the next are shown to others while it sleeps
  const char* what = "engine";
};
WaitEnd wait_condition(const Condition& condition, Waiter& waiter, const Revocation& revocation,
    SpinPolicy spin, LazyDeadline& deadline);
void ring(Word& bell, const Waiter& waiter) noexcept;

inline bool reached(const Word& word, uint32_t target) noexcept {
  return static_cast<int32_t>(word.load(std::memory_order_acquire) - target) >= 0;
}

// What this thread read or wrote before it stays before what it reads
// or writes after. ThreadSanitizer knows no fences, and the plain
// accesses around ours are in other processes, where it cannot look.
inline void fence() noexcept {
#if !defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(std::memory_order_acq_rel);
#endif
}

void wake_all(const Word& word) noexcept;
inline void wake_waiters(const Word& word, std::span<const Waiter> waiters) noexcept {
  for (const Waiter& waiter : waiters) {
    if (waiter.load(std::memory_order_seq_cst) != 0) return wake_all(word);
  }
}

// Writer's half: store, then wake whoever sleeps. `waiters`
// are the bytes of all ranks that may wait for this word.
inline void publish(Word& word, uint32_t value, std::span<const Waiter> waiters,
    Fencing fencing = Fencing::symmetric) noexcept {
  if (fencing == Fencing::asymmetric) {
    word.store(value, std::memory_order_release);
    // the compiler keeps the order; the waiter sees to the processor
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    word.store(value, std::memory_order_seq_cst);  // on x86-64 the one full barrier this costs
  }
  wake_waiters(word, waiters);
}

// Sleep until *word != seen or (if other is not null) *other != other_seen, or the
// deadline. May return early. Works on private and shared words.
void sleep_while(const Word& word, uint32_t seen, const Word* other, uint32_t other_seen,
    Deadline deadline) noexcept;

// Of a word that grows with every change of what `look` looks
// at: until that is true, or the deadline passes, which is
// false. Throws the failure of `revocation` (may be null).
template <class Look>
bool await_change(const Word& changes, Deadline deadline, const Look& look,
    const Revocation* revocation = nullptr) {
  for (;;) {
    const uint32_t seen = changes.load();
    const uint32_t events = revocation != nullptr ? revocation->events().load() : 0;
    if (look()) return true;
    if (revocation != nullptr) revocation->throw_if_revoked();
    if (deadline.expired()) return false;
    sleep_while(
        changes, seen, revocation != nullptr ? &revocation->events() : nullptr, events, deadline);
  }
}
inline void tell_change(Word& changes) noexcept {
  changes.fetch_add(1);
  wake_all(changes);
}

// Sleep until one of these words is not as it was seen, at most so long; may return
// early. False, at once, where the kernel cannot do that.
struct Seen {
  const Word* word = nullptr;
  uint32_t value = 0;
};
inline constexpr size_t kMostSeen = 128;  // that the kernel takes
bool sleep_on_any(std::span<const Seen> seen, uint64_t milliseconds) noexcept;

// poll() until something is ready (returns true) or
// the deadline passes (false). Throws Error(system).
bool poll_until(std::span<pollfd> fds, Deadline deadline);

// For things that can only be asked again and again (a file that
// another rank will write): call until it returns true, with
// pauses growing from 0.1 to 5 ms. False when the deadline passes.
bool retry_until(const std::function<bool()>& ready, Deadline deadline);
}  // namespace symm
