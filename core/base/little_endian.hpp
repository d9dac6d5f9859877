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
// through a character.
inline size_t length_within(size_t max_bytes, std::string_view text) {
  size_t length = std::min(text.size(), max_bytes);
  while (length > 0 && length < text.size() &&
         (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80U) {
    --length;
  }
  return length;
}

// Writes text into a field of fixed size, cut if need be.
template <size_t N>
void write_text(char (&field)[N], const std::string& text) {
  const size_t length = length_within(N - 1, text);
  std::copy_n(text.data(), length, field);
  field[length] = '\0';
}

inline bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

// Whether text has no control characters. Text of a peer ends up in messages and logs, where it
// must not be able to forge lines.
inline bool is_clean(const std::string& text) {
  return std::none_of(text.begin(), text.end(), is_control);
}

// The text with a space for each control character.
inline std::string printable(std::string text) {
  std::replace_if(text.begin(), text.end(), is_control, ' ');
  return text;
}
}  // namespace symm
