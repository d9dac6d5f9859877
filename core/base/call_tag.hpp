// The tag of a collective call: a text of the user's by which a profiler, a trace, symm top and
// messages tell one call from another.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>

namespace symm {
// Bytes of a tag with the 0 behind it, as pages and traces have room.
inline constexpr size_t kTagBytes = 64;

// Says that the calling thread is in a call with a tag, as long as this object lives. What is made
// of the call in that time (ranges, notes, failures, kernels) asks current() for it.
class CallTag {
 public:
  // `given` may be null or "": then there is no tag. It is cut to 63 bytes at the end of a
  // character, and has a space for each control character.
  explicit CallTag(const char* given);
  ~CallTag() { shown_ = before_; }
  CallTag(CallTag&&) = delete;

  // The tag, or null.
  static const char* current() noexcept {
    return in_use_.load(std::memory_order_relaxed) ? shown_ : nullptr;
  }

 private:
  // Whether this process had a tag yet. Most have none, and need not look for the thread's.
  static std::atomic<bool> in_use_;
  static thread_local const char* shown_;

  const char* const before_;
  char text_[kTagBytes];
};

// The message of a failure, with the tag that the call of `rank`, in which it was found, has.
std::string with_tag(std::string message, int rank);
}  // namespace symm
