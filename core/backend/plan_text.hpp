// How the text of a plan table is read: words, numbers, and the refusal of what is not understood.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "core/base/error.hpp"

namespace symm::plan_text {
[[noreturn]] inline void refuse(const std::string& where, const std::string& what) {
  throw Error(Status::invalid_argument, where + ": " + what);
}

inline std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

inline bool read_number(std::string_view text, uint64_t* out) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc{} && stop == text.data() + text.size();
}

// Reads an amount such as 4096, 4K, 4M or 4G.
inline bool read_amount(std::string_view text, uint64_t* out) {
  uint64_t unit = 1;
  if (!text.empty()) {
    const size_t power = std::string_view("KMG").find(text.back());
    if (power != std::string_view::npos) {
      unit = uint64_t{1} << (10 * (power + 1));
      text.remove_suffix(1);
    }
  }
  return read_number(text, out) && !__builtin_mul_overflow(*out, unit, out);
}

// Takes a word off the front of a text whose words are separated by blanks.
inline std::string_view take_word(std::string_view& text) {
  const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  const size_t end = std::min(text.find_first_of(" \t", begin), text.size());
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}
}  // namespace symm::plan_text
