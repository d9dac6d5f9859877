// Numbers for the tags of calls, which kernels can carry and give back when they report a failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace symm::cuda {
// Knows the last kMost different tags. A captured call may be replayed, and fail, when its tag has
// been forgotten; then it has none. May be used by any thread.
class TagTable {
 public:
  static constexpr uint32_t kMost = 1024;
  // Numbers fit into the bits that ErrorRecord::operation has for them.
  static constexpr uint32_t kLargest = (1U << 24) - 1;

  // The number of a tag, which is not 0; or 0 for null.
  uint32_t number_of(const char* tag);
  // The tag, or "" for 0 and for a tag that has been forgotten.
  std::string find(uint32_t number) const;

 private:
  struct Entry {
    uint32_t number = 0;
    std::string tag;
  };

  mutable std::mutex mutex_;
  // The entry of a number is that at the number modulo kMost.
  std::vector<Entry> entries_;
  std::unordered_map<std::string, uint32_t> numbers_;
  uint32_t last_ = 0;
};
}  // namespace symm::cuda
