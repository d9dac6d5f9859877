// Numbers, and text of known lengths, as they travel between processes: little-endian, without
// padding.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
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
}  // namespace symm
