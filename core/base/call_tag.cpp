// Keeps the tag of the call that a thread is in.
#include "core/base/call_tag.hpp"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "core/base/text.hpp"

namespace symm {
std::atomic<bool> CallTag::in_use_{false};
thread_local const char* CallTag::shown_ = nullptr;

// The text is read up to the first byte that does not fit any more, and not further.
CallTag::CallTag(const char* given) : before_(shown_) {
  text_[0] = '\0';
  if (given != nullptr) {
    const char* const end = std::find(given, given + kTagBytes, '\0');
    write_text(text_, std::string(given, end));
  }

  const bool is_there = text_[0] != '\0';
  shown_ = is_there ? text_ : nullptr;
  if (is_there) in_use_.store(true, std::memory_order_relaxed);
}

std::string with_tag(std::string message, int rank) {
  const char* const tag = CallTag::current();
  if (tag == nullptr) return message;
  return std::move(message) + "; the call of rank " + std::to_string(rank) + " has the tag \"" +
         tag + "\"";
}
}  // namespace symm
