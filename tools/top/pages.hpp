// What processes of this user show in shared memory (symm/page.h), while they write it.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace symm::tool {
uint64_t load(const uint64_t& word);

// The memory behind a descriptor, for reading. There is none if it is another user's, may shrink,
// or is smaller than `least` bytes.
class ShownMemory {
 public:
  ShownMemory(const std::string& path, size_t least);
  ~ShownMemory();
  ShownMemory(const ShownMemory&) = delete;
  ShownMemory& operator=(const ShownMemory&) = delete;

  explicit operator bool() const { return words_ != nullptr; }
  const uint64_t* words() const { return words_; }
  size_t bytes() const { return bytes_; }

 private:
  const uint64_t* words_ = nullptr;
  size_t bytes_ = 0;
};

// Calls `use` with the path of each descriptor here whose link is this one, and with the process.
void for_each_descriptor(
    std::string_view link, const std::function<void(const std::string& path, pid_t pid)>& use);

// A text without what a terminal would take for a command. One in a field ends before its end, or
// fills it.
std::string printable(std::string text);
template <size_t N>
std::string printable(const char (&field)[N]) {
  return printable(std::string(field, std::find(field, field + N, '\0')));
}
}  // namespace symm::tool
