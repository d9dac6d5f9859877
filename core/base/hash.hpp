// Hashes that are the same in every build of the library, unlike std::hash.
#pragma once

#include <cstdint>

namespace symm {
// The FNV-1a hash of text or of std::bytes.
template <class Bytes>
constexpr uint64_t fnv1a(const Bytes& bytes) noexcept {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const auto byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
  }
  return hash;
}

// SplitMix64: adjacent numbers become numbers that are far apart.
constexpr uint64_t mix(uint64_t a, uint64_t b) noexcept {
  uint64_t x = a ^ (b * 0x9E3779B97F4A7C15U);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}
}  // namespace symm
