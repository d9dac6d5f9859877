// The system calls of futexes, and nothing of what the words mean.
#include "core/base/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/deadline.hpp"
#include "core/base/interrupt.hpp"
#include "core/base/page.hpp"

namespace symm {
namespace {
#if defined(SYS_futex_waitv) && defined(FUTEX_32)
std::atomic<bool> futex_waitv_missing{false};
#endif
}  // namespace

bool sleep_on_any(std::span<const WordSnapshot> seen, uint64_t ns) noexcept {
#if defined(SYS_futex_waitv) && defined(FUTEX_32)
  if (futex_waitv_missing.load(std::memory_order_relaxed)) return false;

  std::array<futex_waitv, kMaxSnapshots> waits;
  for (size_t i = 0; i < seen.size(); ++i) {
    waits[i] = {};
    waits[i].val = seen[i].value;
    waits[i].uaddr = reinterpret_cast<uintptr_t>(seen[i].word);
    waits[i].flags = FUTEX_32;
  }

  const timespec until = to_timespec(now_ns() + ns);
  const long woken =
      syscall(SYS_futex_waitv, waits.data(), seen.size(), 0, &until, CLOCK_MONOTONIC);
  const int error = woken < 0 ? errno : 0;
  if (error == ENOSYS || error == EPERM) {
    futex_waitv_missing = true;
    return false;
  }
  interrupt::ask(error);
  return true;
#else
  (void)seen;
  (void)ns;
  return false;
#endif
}

void sleep_on(const WordSnapshot& seen, uint64_t ns) noexcept {
  const timespec timeout = to_timespec(ns);
  const long woken = syscall(SYS_futex, seen.word, FUTEX_WAIT, seen.value, &timeout, nullptr, 0);
  interrupt::ask(woken < 0 ? errno : 0);
}

// Sleeps for a slice at most: the caller asks again in any case. Where the kernel cannot sleep
// on two words, this thread sleeps on the first alone, and so only for a short slice.
void sleep_while(const Word& word, uint32_t seen, const Word* other, uint32_t other_seen,
    Deadline deadline) noexcept {
  const uint64_t left = std::min(deadline.remaining_ns(), kSliceNs);
  if (left == 0 || word.load() != seen) return;
  if (other == nullptr) return sleep_on({&word, seen}, left);

  if (other->load() != other_seen) return;
  const WordSnapshot both[] = {{&word, seen}, {other, other_seen}};
  if (sleep_on_any(both, left)) return;
  sleep_on({&word, seen}, std::min(left, kBlindSliceNs));
}

void wake_all(const Word& word) noexcept {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}
}  // namespace symm
