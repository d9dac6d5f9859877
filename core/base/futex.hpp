// Sleeping in the kernel until a word changes (futex), and waking the threads that sleep on it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/deadline.hpp"

namespace symm {
using Word = std::atomic<uint32_t>;

// A word and the value that it had when it was read. A sleep on a word that has changed since ends
// at once.
struct WordSnapshot {
  const Word* word = nullptr;
  uint32_t value = 0;
};
inline constexpr size_t kMaxSnapshots = 128;  // the kernel takes no more for one sleep

// The longest sleep: a waiter looks again after this time, even if it was not woken.
inline constexpr uint64_t kSliceNs = 50'000'000;
// The longest sleep where a change may go unnoticed by the kernel.
inline constexpr uint64_t kBlindSliceNs = 1'000'000;

// Sleeps until one of the words is not as it was seen, at most for the time given. May return
// early. False, at once, where the kernel cannot sleep on several words (Linux before 5.16, or a
// seccomp filter).
bool sleep_on_any(std::span<const WordSnapshot> seen, uint64_t ns) noexcept;
// Sleeps on one word, which every kernel can. May return early.
void sleep_on(const WordSnapshot& seen, uint64_t ns) noexcept;

// Sleeps until *word != seen or (if other is not null) *other != other_seen, or the deadline. May
// return early. Works on private and shared words.
void sleep_while(const Word& word, uint32_t seen, const Word* other, uint32_t other_seen,
    Deadline deadline) noexcept;

void wake_all(const Word& word) noexcept;
}  // namespace symm
