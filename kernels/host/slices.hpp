// The ways to divide work: into chunks that pass through scratch one after the other, and
// into one slice per rank. All cuts but the last are multiples of a cache line, so that two
// ranks do not write to one line.
#pragma once

#include <algorithm>
#include <cstddef>

namespace symm::host {
inline constexpr size_t kLine = 64;

constexpr size_t round_down(size_t value, size_t unit) noexcept { return value / unit * unit; }
constexpr size_t round_up(size_t value, size_t unit) noexcept {
  return round_down(value + unit - 1, unit);
}

struct Range {
  size_t begin = 0;
  size_t end = 0;
  constexpr size_t size() const noexcept { return end - begin; }
};

// Chunk `index` of `bytes` bytes of a range; empty behind its end.
constexpr Range part_of(const Range& whole, size_t index, size_t bytes) noexcept {
  return {std::min(whole.begin + index * bytes, whole.end),
      std::min(whole.begin + (index + 1) * bytes, whole.end)};
}

// Part `index` of the `parts` parts of `bytes` bytes; parts differ by at most a line,
// and may be empty.
constexpr Range slice(size_t bytes, int index, int parts) noexcept {
  const size_t lines = (bytes + kLine - 1) / kLine;
  const auto i = static_cast<size_t>(index);
  const auto n = static_cast<size_t>(parts);
  const auto cut = [&](size_t k) {
    return std::min(bytes, (lines / n * k + std::min(k, lines % n)) * kLine);
  };
  return {cut(i), cut(i + 1)};
}

// Consecutive chunks of at most `chunk` bytes.
class Chunks {
 public:
  constexpr Chunks(size_t bytes, size_t chunk) noexcept : bytes_(bytes), chunk_(chunk) {}
  constexpr size_t count() const noexcept { return bytes_ == 0 ? 0 : (bytes_ - 1) / chunk_ + 1; }
  constexpr Range operator[](size_t index) const noexcept {
    return part_of({0, bytes_}, index, chunk_);
  }

 private:
  size_t bytes_;
  size_t chunk_;
};
}  // namespace symm::host
