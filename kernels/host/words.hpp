// Words of memory of the host that are given by their address and their bytes: changes in one
// step, which fetch the former value, and copies of a value.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kernels/compare.hpp"

namespace symm {
template <class Word>
Word change(std::atomic<Word>& word, AtomicOp op, Word value, Word compare) noexcept {
  switch (op) {
    case AtomicOp::fetch: return word.load(std::memory_order_seq_cst);
    case AtomicOp::add: return word.fetch_add(value, std::memory_order_seq_cst);
    case AtomicOp::band: return word.fetch_and(value, std::memory_order_seq_cst);
    case AtomicOp::bor: return word.fetch_or(value, std::memory_order_seq_cst);
    case AtomicOp::bxor: return word.fetch_xor(value, std::memory_order_seq_cst);
    case AtomicOp::swap: return word.exchange(value, std::memory_order_seq_cst);
    case AtomicOp::compare_swap: break;
  }

  // compare_exchange_strong() stores the value of the word in `seen` if the two differ.
  Word seen = compare;
  word.compare_exchange_strong(seen, value, std::memory_order_seq_cst);
  return seen;
}

// The word has 4 or 8 bytes, and lies at a multiple of them. For a word of 4 bytes the lower
// bytes of `value` and `compare` count.
inline uint64_t change(
    void* word, size_t bytes, AtomicOp op, uint64_t value, uint64_t compare) noexcept {
  if (bytes == sizeof(uint32_t)) {
    return change(*static_cast<std::atomic<uint32_t>*>(word), op, static_cast<uint32_t>(value),
        static_cast<uint32_t>(compare));
  }
  return change(*static_cast<std::atomic<uint64_t>*>(word), op, value, compare);
}

// A word of a caller by which threads tell each other what is there.
inline uint32_t load_acquire(const uint32_t& word) noexcept {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

inline void store_release(uint32_t& word, uint32_t value) noexcept {
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}

// Stores the lower bytes of `value` in memory that no other thread looks at.
inline void store_word(void* to, uint64_t value, size_t bytes) noexcept {
  if (bytes == sizeof(uint32_t)) {
    *static_cast<uint32_t*>(to) = static_cast<uint32_t>(value);
  } else {
    *static_cast<uint64_t*>(to) = value;
  }
}

inline void store_copies(void* to, const Copies& copies) noexcept {
  const auto fill = [&](auto value) {
    std::fill_n(static_cast<decltype(value)*>(to), copies.count, value);
  };
  switch (copies.bytes) {
    case 1: return fill(static_cast<uint8_t>(copies.value));
    case 2: return fill(static_cast<uint16_t>(copies.value));
    case 4: return fill(static_cast<uint32_t>(copies.value));
    default: return fill(copies.value);
  }
}
}  // namespace symm
