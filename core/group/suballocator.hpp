// Keeps account of the parts of a range of bytes that are in use. It computes with numbers and
// does not touch the range. The method is two-level segregated fit: free pieces are in lists
// by size, sixteen classes for each power of two, and a call takes constant time. The answer
// to a call follows from the calls before it and from nothing else, so ranks that make the
// same calls get the same offsets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <vector>

namespace symm {
class Suballocator {
 public:
  static constexpr size_t kUnit = 256;  // offsets and lengths are multiples of it
  static constexpr size_t kMostBytes = (size_t{1} << 32) * kUnit - kUnit;

  explicit Suballocator(size_t bytes);  // a multiple of kUnit, at most kMostBytes
  // One that answers every call as the one that was saved does, whose bytes() these are. Throws
  // Error(peer_failed) if no suballocator of this size can have saved it.
  Suballocator(size_t bytes, std::span<const uint32_t> saved);
  std::vector<uint32_t> save() const;

  static constexpr size_t kNone = SIZE_MAX;
  // Takes a piece and returns its offset, which is a multiple of `alignment`, a power of two below
  // 2^40; kNone if no free piece can hold it.
  size_t take(size_t bytes, size_t alignment);
  struct Piece {
    size_t offset = 0;
    size_t bytes = 0;  // in use: as asked for; free: all
    bool used = false;
  };
  Piece at(size_t offset) const;  // the piece that contains an offset below bytes()
  void give(const Piece& used);

  size_t bytes() const noexcept { return size_t{units_} * kUnit; }
  size_t used() const noexcept { return size_t{used_} * kUnit; }
  size_t peak() const noexcept { return size_t{peak_} * kUnit; }
  size_t pieces() const noexcept { return pieces_; }
  size_t free_pieces() const noexcept { return free_pieces_; }
  size_t largest_free() const noexcept;

 private:
  // There is an entry for each unit, and the entry has a meaning if a piece starts at the unit.
  // So pieces need no room in the range, and a call makes no system call.
  struct Entry {
    uint32_t units;     // the length of the piece that starts here; 0: none does
    uint32_t before;    // length of the piece that ends here; 0: this is the first piece
    uint32_t next;      // free: the next piece in the list of its class; in use: kUsed
    uint32_t previous;  // free: the piece before in the list; in use: bytes of its units left over
  };
  static constexpr uint32_t kEnd = UINT32_MAX;
  static constexpr uint32_t kUsed = UINT32_MAX - 1;
  static constexpr uint32_t kUnlinked = UINT32_MAX - 2;  // free, and in no list yet
  static constexpr unsigned kSplit = 4;                  // each power of two has 2^kSplit classes
  static constexpr unsigned kClasses = (32 - kSplit + 1) << kSplit;

  struct Free {
    void operator()(void* memory) const noexcept { std::free(memory); }
  };
  // An array of zeros, whose pages are allocated when they are written.
  template <class T>
  using Zeros = std::unique_ptr<T[], Free>;
  template <class T>
  static Zeros<T> zeros(size_t count) {
    auto* made = static_cast<T*>(std::calloc(count, sizeof(T)));
    if (made == nullptr) throw std::bad_alloc();
    return Zeros<T>(made);
  }

  static unsigned class_of(uint32_t units) noexcept;
  void make_tables();
  uint32_t find_free(uint32_t units, uint32_t alignment) const noexcept;
  void start(uint32_t at, uint32_t units, uint32_t before);
  void forget(uint32_t at);
  void link(uint32_t at);
  void unlink(uint32_t at);
  uint32_t start_before(uint32_t at) const noexcept;

  uint32_t units_;
  uint32_t used_ = 0;  // units
  uint32_t peak_ = 0;  // units
  size_t pieces_ = 0;
  size_t free_pieces_ = 0;
  Zeros<Entry> entries_;
  // By level: a bit for each unit where a piece starts, then one for each word of the level before
  // that has a bit.
  std::vector<Zeros<uint64_t>> starts_;
  std::array<uint32_t, kClasses> first_;                 // by class: its first free piece, or kEnd
  std::array<uint64_t, (kClasses + 63) / 64> filled_{};  // a bit for each class that has a piece
};
}  // namespace symm
