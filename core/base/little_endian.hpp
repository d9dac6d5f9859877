// Numbers and text as they travel between processes: little-endian, without padding.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace symm {
// Reads one field after the other. The caller has checked the size.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  T number() {
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      value = static_cast<T>(value | static_cast<T>(std::to_integer<T>(bytes_[i]) << (8 * i)));
    }
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }
  // Reads numbers and enumerators, one after the other, as Writer::numbers() writes them.
  template <class... T>
  void numbers(T&... fields) {
    ((fields = static_cast<T>(number<std::make_unsigned_t<T>>())), ...);
  }
  std::string text(size_t size) {
    std::string value(size, '\0');
    std::transform(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(size),
        value.begin(), [](std::byte b) { return static_cast<char>(b); });
    bytes_ = bytes_.subspan(size);
    return value;
  }
  template <class Array>
  Array bytes() {
    Array value{};
    std::copy_n(bytes_.begin(), value.size(), value.begin());
    bytes_ = bytes_.subspan(value.size());
    return value;
  }
  std::span<const std::byte> rest() const { return bytes_; }
  size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

class Writer {
 public:
  template <class T>
  void number(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>(value >> (8 * i) & 0xFFU));
    }
  }
  template <class... T>
  void numbers(T... fields) {
    (number(static_cast<std::make_unsigned_t<T>>(fields)), ...);
  }
  void text(const std::string& value) {
    for (const char c : value) {
      bytes_.push_back(static_cast<std::byte>(c));
    }
  }
  void bytes(std::span<const std::byte> value) {
    bytes_.insert(bytes_.end(), value.begin(), value.end());
  }
  std::vector<std::byte> bytes_;
};

// The length of the longest part of UTF-8 text that fits into `max_bytes` bytes without cutting
// through a character. A character has at most three bytes behind its first one, so text that has
// more of them is no UTF-8, and is cut anywhere.
inline size_t length_within(size_t max_bytes, std::string_view text) {
  constexpr size_t kMostBehind = 3;
  if (text.size() <= max_bytes) return text.size();

  const auto is_behind = [&](size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
  };
  size_t length = max_bytes;
  while (length > 0 && max_bytes - length < kMostBehind && is_behind(length)) {
    --length;
  }
  return is_behind(length) ? max_bytes : length;
}

inline bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

// Bytes of the character of UTF-8 that text begins with; 0: no character of UTF-8 begins there. A
// character has one form only, the shortest, and no half of a surrogate pair is one.
inline size_t character_of(std::string_view text) {
  const auto byte = [&](size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;

  const unsigned lowest = first == 0xE0 ? 0xA0U : first == 0xF0 ? 0x90U : 0x80U;
  const unsigned highest = first == 0xED ? 0x9FU : first == 0xF4 ? 0x8FU : 0xBFU;
  if (byte(1) < lowest || byte(1) > highest) return 0;

  const size_t bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  for (size_t at = 2; at < bytes; ++at) {
    if ((byte(at) & 0xC0U) != 0x80U) return 0;
  }
  return bytes;
}

// Makes text one line of UTF-8 in its place: a space for each control character, U+0080 to U+009F
// among them, and "?" for each byte that belongs to no character.
inline void make_printable(std::span<char> text) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = character_of({text.data() + at, text.size() - at});
    const bool is_c1 = bytes == 2 && text[at] == '\xC2' && (text[at + 1] & 0x60) == 0;
    if (bytes == 0) {
      text[at] = '?';
    } else if (is_c1 || is_control(text[at])) {
      std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at), bytes, ' ');
    }
    at += std::max<size_t>(bytes, 1);
  }
}

// The text as one line of UTF-8.
inline std::string printable(std::string text) {
  make_printable(text);
  return text;
}

// Writes text into a field of fixed size, as one line of UTF-8 and cut if need be.
template <size_t N>
void write_text(char (&field)[N], const std::string& text) {
  const size_t length = length_within(N - 1, text);
  std::copy_n(text.data(), length, field);
  make_printable({field, length});
  field[length] = '\0';
}

// Whether text has no control characters. Text of a peer ends up in messages and logs, where it
// must not be able to forge lines.
inline bool is_clean(const std::string& text) {
  return std::none_of(text.begin(), text.end(), is_control);
}
}  // namespace symm
