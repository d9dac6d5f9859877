// Text as it is shown: one line of UTF-8, cut where its place is too small.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace symm {
// The length of the longest part of UTF-8 text that fits into `max_bytes` bytes without cutting
// through a character. A character has at most three bytes behind its first one, so text that has
// more of them is not UTF-8, and is cut anywhere.
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

  // The second byte excludes longer forms, halves of surrogate pairs, and what is above U+10FFFF.
  unsigned lowest = 0x80;
  unsigned highest = 0xBF;
  if (first == 0xE0) lowest = 0xA0;
  if (first == 0xED) highest = 0x9F;
  if (first == 0xF0) lowest = 0x90;
  if (first == 0xF4) highest = 0x8F;
  if (byte(1) < lowest || byte(1) > highest) return 0;

  size_t bytes = 4;
  if (first < 0xF0) bytes = 3;
  if (first < 0xE0) bytes = 2;
  for (size_t at = 2; at < bytes; ++at) {
    if ((byte(at) & 0xC0U) != 0x80U) return 0;
  }
  return bytes;
}

// Whether a character is none that is seen within a line: a control character, U+0080 to U+009F
// among them, or one of Unicode's separators of lines and paragraphs, U+2028 and U+2029.
inline bool breaks_line(std::string_view character) {
  if (character.size() == 1) return is_control(character[0]);
  if (character.size() == 2) return character[0] == '\xC2' && (character[1] & 0x60) == 0;
  return character == "\xE2\x80\xA8" || character == "\xE2\x80\xA9";
}

// Makes text one line of UTF-8 in its place: a space for each byte of what breaks a line, and "?"
// for each byte that belongs to no character.
inline void make_printable(std::span<char> text) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = character_of({text.data() + at, text.size() - at});
    if (bytes == 0) {
      text[at] = '?';
    } else if (breaks_line({text.data() + at, bytes})) {
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
