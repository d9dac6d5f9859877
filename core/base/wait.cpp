// The loop in which every rank waits: spin, look for a failure, sleep. It is one unit so that a
// small call's wait is compiled as one piece.
#include "core/base/wait.hpp"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "core/base/deadline.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/page.hpp"

namespace symm {
bool register_for_asymmetric_fences() noexcept {
#if defined(__SANITIZE_THREAD__)
  return false;  // it cannot see what the kernel orders
#else
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
#endif
}

namespace {
// Remembers that others want this thread's processor, and took it while the thread waited. More
// spinning would use up the turns in which the thread could answer, and a thread that yields waits
// for all turns of the others. A thread that sleeps is woken before them.
class Contention {
 public:
  bool lasts() const noexcept { return until_ != 0 && now_ns() < until_; }

  void begin() noexcept { until_ = now_ns() + 50 * kMillisecondNs; }

  // Whether the processor was taken away since the last look. The `first` look of a wait only
  // counts.
  bool look(bool first) noexcept {
    rusage used{};
    getrusage(RUSAGE_THREAD, &used);
    const bool taken = std::exchange(taken_, used.ru_nivcsw) != used.ru_nivcsw && !first;
    if (taken) begin();
    return taken;
  }

 private:
  long taken_ = 0;
  uint64_t until_ = 0;
};

thread_local Contention contention;

// Looks as long as the policy allows. False if the wait has to sleep, or to end.
bool spin_until(const Predicate& holds, const Revocation& revocation, SpinPolicy spin,
    const LazyDeadline& deadline) {
  if (deadline.timeout_ms() == Deadline::kNow) return false;

  constexpr uint32_t kInARow = 64;
  for (uint32_t looks = 0; looks < spin.spins;) {
    if (holds.look(std::min(kInARow, spin.spins - looks))) return true;
    looks += kInARow;
    // A revoked group must be left soon even by a rank that would spin for long.
    if (revocation.revoked()) break;
    if (looks == kInARow && contention.lasts()) break;
    if (looks % 1024 == 0 && contention.look(looks == 1024)) break;
  }

  for (uint32_t i = 0; i < spin.yields && !revocation.revoked() && !contention.lasts(); ++i) {
    if (holds()) return true;
    const uint64_t before = now_ns();
    sched_yield();
    if (now_ns() - before > kMillisecondNs) contention.begin();
  }
  return false;
}

// Counts the calling thread in its rank's waiter byte while this lives. A byte counts up to 255
// sleeping threads; further ones go uncounted.
class CountedSleeper {
 public:
  explicit CountedSleeper(Waiter& waiter) noexcept : waiter_(waiter) {
    uint8_t sleeping = waiter.load(std::memory_order_relaxed);
    while (!counted_ && sleeping < UINT8_MAX) {
      counted_ = waiter.compare_exchange_weak(
          sleeping, static_cast<uint8_t>(sleeping + 1), std::memory_order_seq_cst);
    }
  }
  ~CountedSleeper() {
    if (counted_) waiter_.fetch_sub(1, std::memory_order_relaxed);
  }
  CountedSleeper(CountedSleeper&&) = delete;

  bool counted() const noexcept { return counted_; }

 private:
  Waiter& waiter_;
  bool counted_ = false;
};

// The interval at which a sleeping wait asks whether it is hopeless.
constexpr uint64_t kLookNs = 100 * kMillisecondNs;

// Sleeps until the condition holds, which changes only after one of its bells has.
[[gnu::noinline]] WaitEnd sleep_in_kernel(const Condition& condition, Waiter& waiter,
    const Revocation& revocation, LazyDeadline& deadline) {
  const CountedSleeper sleeper(waiter);
  const bool fenced = condition.fencing == Fencing::symmetric ||
                      syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0;

  // A writer may miss a sleeper that is not counted, that the kernel refused a barrier, or that
  // cannot sleep on all bells: then the sleeper looks every millisecond.
  const bool is_woken =
      sleeper.counted() && fenced && condition.all_ring && condition.bells.size() < kMaxSnapshots;
  const auto bells = condition.bells.first(std::min(condition.bells.size(), kMaxSnapshots - 1));

  std::array<WordSnapshot, kMaxSnapshots> seen;
  WaitEnd end = WaitEnd::reached;
  const uint64_t began = now_ns();
  uint64_t looked = began;
  const Page::Sleep shown(revocation.page().get(), condition.peer, condition.what, began);
  for (;;) {
    seen[bells.size()] = {
        &revocation.events(), revocation.events().load(std::memory_order_seq_cst)};
    for (size_t i = 0; i < bells.size(); ++i) {
      seen[i] = {bells[i], bells[i]->load(std::memory_order_seq_cst)};
    }

    // Events first, the condition last: a peer's last store happened before its departure was
    // announced.
    const bool revoked = revocation.revoked();
    const bool unreachable = condition.unreachable();
    if (condition.holds()) break;
    if (revoked || unreachable) {
      end = revoked ? WaitEnd::revoked : WaitEnd::peer_departed;
      break;
    }
    const uint64_t left = deadline.get().remaining_ns();
    if (left == 0) {
      end = WaitEnd::timed_out;
      break;
    }
    if (condition.hopeless != nullptr && now_ns() - looked >= kLookNs) {
      if ((*condition.hopeless)()) {
        end = WaitEnd::hopeless;
        break;
      }
      looked = now_ns();
    }

    const uint64_t slice = std::min(left, is_woken ? kSliceNs : kBlindSliceNs);
    if (!sleep_on_any({seen.data(), bells.size() + 1}, slice)) {
      sleep_on(seen[0], std::min(slice, kBlindSliceNs));
    }
    // The condition may be one that takes what it finds, so an interrupted wait does not look.
    if (interrupt::happened()) {
      end = WaitEnd::timed_out;
      break;
    }
  }

  revocation.count_sleep(now_ns() - began);
  return end;
}
}  // namespace

WaitEnd wait_word(const Word& word, uint32_t target, Waiter& waiter, int peer,
    const Revocation& revocation, SpinPolicy spin, LazyDeadline& deadline, Fencing fencing,
    const char* what, const Predicate* hopeless) {
  const auto holds = [&word, target] { return reached(word, target); };
  if (spin_until(holds, revocation, spin, deadline)) return WaitEnd::reached;

  const auto departed = [&revocation, peer] { return revocation.departed(peer); };
  const Word* const words[] = {&word};
  const Condition condition{.holds = holds,
      .unreachable = departed,
      .bells = words,
      .peer = peer,
      .what = what,
      .hopeless = hopeless,
      .fencing = fencing};
  return sleep_in_kernel(condition, waiter, revocation, deadline);
}

WaitEnd wait_condition(const Condition& condition, Waiter& waiter, const Revocation& revocation,
    SpinPolicy spin, LazyDeadline& deadline) {
  if (spin_until(condition.holds, revocation, spin, deadline)) return WaitEnd::reached;
  return sleep_in_kernel(condition, waiter, revocation, deadline);
}

void ring(Word& bell, const Waiter& waiter) noexcept {
  if (waiter.load(std::memory_order_seq_cst) == 0) return;
  bell.fetch_add(1, std::memory_order_seq_cst);
  wake_all(bell);
}
}  // namespace symm
