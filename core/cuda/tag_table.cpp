// Gives the tags of calls numbers, and forgets the oldest.
#include "core/cuda/tag_table.hpp"

#include <cstdint>
#include <mutex>
#include <string>

namespace symm::cuda {
uint32_t TagTable::number_of(const char* tag) {
  if (tag == nullptr) return 0;

  const std::lock_guard lock(mutex_);
  const std::string text(tag);
  if (const auto known = numbers_.find(text); known != numbers_.end()) return known->second;

  if (entries_.empty()) entries_.resize(kMost);
  last_ = last_ == kLargest ? 1 : last_ + 1;
  Entry& entry = entries_[last_ % kMost];
  if (entry.number != 0) numbers_.erase(entry.tag);

  entry = {last_, text};
  numbers_.emplace(text, last_);
  return last_;
}

std::string TagTable::find(uint32_t number) const {
  const std::lock_guard lock(mutex_);
  if (number == 0 || entries_.empty()) return "";
  const Entry& entry = entries_[number % kMost];
  return entry.number == number ? entry.tag : "";
}
}  // namespace symm::cuda
