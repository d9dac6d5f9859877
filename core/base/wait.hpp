// The waits of the host. Every wait has a deadline, and every wait on another rank ends early when
// the group is revoked. No other room waits; within this one, futex.hpp sleeps on words, poll.hpp
// on descriptors and files, and wait.cpp has the loop that ranks wait in.
//
// A word on which ranks wait is a 32-bit counter with one writer that only grows (compared as a
// signed difference, so that it may wrap). A waiter spins for a while, then registers itself in
// the word's waiter byte and sleeps in the kernel on the word and on the group's event counter at
// once (futex_waitv; in 1 ms slices where the kernel lacks it). The writer stores the word, and
// only if it then sees a waiter pays for a wake-up.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "core/base/deadline.hpp"     // IWYU pragma: export
#include "core/base/futex.hpp"        // IWYU pragma: export
#include "core/base/poll.hpp"         // IWYU pragma: export
#include "core/base/revocation.hpp"   // IWYU pragma: export
#include "core/base/spin_policy.hpp"  // IWYU pragma: export

namespace symm {
// The number of sleeping threads of one rank; written by that rank only.
using Waiter = std::atomic<uint8_t>;

// The news by which a thread that asks for progress brackets its polling: it begins, it ends, or it
// ends and the thread may go to sleep.
enum class Polling { begins, ends, sleeps };

// The end of a wait. `hopeless`: the caller found out that the awaited value will never come.
enum class WaitEnd { reached, timed_out, peer_departed, revoked, hopeless };

// The cost of the writer not missing a waiter, and the side that bears it. Writer and waiter each
// store one word and then read the other's, and one of them must see the other's store. For that
// both need a full barrier.
enum class Fencing {
  // Writer and waiter each have a barrier.
  symmetric,
  // The waiter, which is about to sleep anyway, has the kernel put a barrier into all processes
  // (membarrier). The writer, which publishes in every call, has none, and need not wait until its
  // store is visible. Allowed only where every possible writer is registered.
  asymmetric
};
// Registers this process as a writer. False where the kernel does not offer it.
bool register_for_asymmetric_fences() noexcept;

// Pauses the processor between two looks.
inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// A condition that a wait polls: a reference to something to call, which the caller keeps.
class Predicate {
 public:
  template <class Callable>
  Predicate(const Callable& callable) : callable_(&callable), look_(look_repeatedly<Callable>) {}
  bool operator()() const { return look(1); }
  // Looks `times` times in a row, by one indirect call.
  bool look(uint32_t times) const { return look_(callable_, times); }

 private:
  template <class Callable>
  static bool look_repeatedly(const void* callable, uint32_t times) {
    // Copied, so that a look at a word is a single load.
    const Callable holds = *static_cast<const Callable*>(callable);
    for (uint32_t i = 1;; ++i, cpu_relax()) {
      if (holds()) return true;
      if (i >= times) return false;
    }
  }
  const void* callable_;
  bool (*look_)(const void*, uint32_t);
};

// A wait for something else than one 32-bit counter: for words of 64 bits, on which the kernel
// cannot put a thread to sleep, or for one of several words. A rank that writes them rings: it
// increments its bell if the waiter byte says that a thread sleeps. The writer stores the words
// before it reads the byte, and the waiter stores the byte before it reads the words, all in
// one order (seq_cst), so no bell is missed.
struct Condition {
  Predicate holds;
  Predicate unreachable;               // all ranks that could make `holds` true have left
  std::span<const Word* const> bells;  // the bells of those ranks
  // False if a writer does not ring: then the wait looks every millisecond.
  bool all_ring = true;
  int peer = -1;                // shown to others while the wait sleeps
  const char* what = "engine";  // shown to others, too
  // Looked at now and then while the wait sleeps, in which what is there was found to be missing
  // just before. If it holds, the wait is hopeless. May be null.
  const Predicate* hopeless = nullptr;
  Fencing fencing = Fencing::symmetric;  // that of the writers
};
WaitEnd wait_condition(const Condition& condition, Waiter& waiter, const Revocation& revocation,
    SpinPolicy spin, LazyDeadline& deadline);

// Waits until word - target >= 0 (signed). `peer` is the rank that writes the word. Before the wait
// ends with `revoked` or `peer_departed`, it looks at the word once more after the event, so data
// that was there in time is never lost. `what` the wait is for is shown to others while it sleeps.
// `hopeless`: as in Condition.
WaitEnd wait_word(const Word& word, uint32_t target, Waiter& waiter, int peer,
    const Revocation& revocation, SpinPolicy spin, LazyDeadline& deadline,
    Fencing fencing = Fencing::symmetric, const char* what = "",
    const Predicate* hopeless = nullptr);

void ring(Word& bell, const Waiter& waiter) noexcept;

inline bool reached(const Word& word, uint32_t target) noexcept {
  return static_cast<int32_t>(word.load(std::memory_order_acquire) - target) >= 0;
}

// Keeps what this thread read or wrote before it in front of what the thread reads or writes after
// it. ThreadSanitizer knows no fences, and the plain accesses around this one are in other
// processes, where it cannot look.
inline void fence() noexcept {
#if !defined(__SANITIZE_THREAD__)
  std::atomic_thread_fence(std::memory_order_acq_rel);
#endif
}

inline void wake_waiters(const Word& word, std::span<const Waiter> waiters) noexcept {
  for (const Waiter& waiter : waiters) {
    if (waiter.load(std::memory_order_seq_cst) != 0) return wake_all(word);
  }
}

// The writer's half: stores the word, then wakes all that sleep on it. `waiters` are the bytes of
// all ranks that may wait for this word.
inline void publish(Word& word, uint32_t value, std::span<const Waiter> waiters,
    Fencing fencing = Fencing::symmetric) noexcept {
  if (fencing == Fencing::asymmetric) {
    word.store(value, std::memory_order_release);
    // This keeps the order in the compiler; the waiter's membarrier keeps it in the processor.
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    word.store(value, std::memory_order_seq_cst);  // on x86-64 the one full barrier this costs
  }
  wake_waiters(word, waiters);
}

// Blocks until look() is true; false when the deadline passes first. `changes` must grow with every
// change that look() can see. Throws the failure of `revocation` (may be null).
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
}  // namespace symm
