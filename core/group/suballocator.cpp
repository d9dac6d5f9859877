// Free lists by size over a range of numbers. The range itself is never touched.
#include "core/group/suballocator.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/error.hpp"

namespace symm {
namespace {
constexpr uint32_t round_up(uint64_t number, uint32_t unit) {
  return static_cast<uint32_t>((number + unit - 1) & ~uint64_t{unit - 1});
}
}  // namespace

Suballocator::Suballocator(size_t bytes)
    : units_(static_cast<uint32_t>(bytes / kUnit)), entries_(zeros<Entry>(units_)) {
  make_tables();
  start(0, units_, 0);
  link(0);
}

void Suballocator::make_tables() {
  for (size_t bits = units_;; bits = (bits + 63) / 64) {
    starts_.push_back(zeros<uint64_t>((bits + 63) / 64));
    if (bits <= 64) break;
  }

  // The pages that the first pieces need are written here, so that no call waits for the kernel to
  // find them.
  constexpr size_t kPage = 4096;
  constexpr size_t kAtOnce = size_t{4} << 20;
  const size_t table = size_t{units_} * sizeof(Entry);
  for (size_t at = 0; at < std::min(table, kAtOnce); at += kPage) {
    *reinterpret_cast<volatile std::byte*>(reinterpret_cast<std::byte*>(entries_.get()) + at) =
        std::byte{};
  }

  first_.fill(kEnd);
}

// What is saved: the peak, the number of pieces, two numbers for each piece in the order of their
// addresses (its units, and the bytes of them that are left over, or kEnd if it is free), and the
// free pieces in the order in which linking them makes the lists.
std::vector<uint32_t> Suballocator::save() const {
  std::vector<uint32_t> saved{peak_, static_cast<uint32_t>(pieces_ + free_pieces_)};
  for (uint32_t at = 0; at < units_; at += entries_[at].units) {
    const Entry& entry = entries_[at];
    saved.insert(saved.end(), {entry.units, entry.next == kUsed ? entry.previous : kEnd});
  }

  for (const uint32_t first : first_) {
    const auto begins = static_cast<std::ptrdiff_t>(saved.size());
    for (uint32_t at = first; at != kEnd; at = entries_[at].next) {
      saved.push_back(at);
    }
    std::reverse(saved.begin() + begins, saved.end());
  }
  return saved;
}

Suballocator::Suballocator(size_t bytes, std::span<const uint32_t> saved)
    : units_(static_cast<uint32_t>(bytes / kUnit)), entries_(zeros<Entry>(units_)) {
  make_tables();
  const auto require = [](bool holds) {
    if (!holds) throw Error(Status::peer_failed, "a peer told of pieces that are of no heap");
  };
  const auto next = [&] {
    require(!saved.empty());
    const uint32_t number = saved.front();
    saved = saved.subspan(1);
    return number;
  };

  peak_ = next();
  const uint32_t all = next();
  uint32_t at = 0;
  uint32_t before = 0;
  size_t free = 0;
  for (uint32_t i = 0; i < all; ++i) {
    const uint32_t units = next();
    const uint32_t left_over = next();
    require(units != 0 && units <= units_ - at && (left_over == kEnd || left_over < kUnit));
    start(at, units, before);
    entries_[at].next = left_over == kEnd ? kUnlinked : kUsed;
    entries_[at].previous = left_over;
    if (left_over == kEnd) {
      ++free;
    } else {
      ++pieces_;
      used_ += units;
    }
    at += units;
    before = units;
  }
  require(at == units_ && peak_ >= used_ && peak_ <= units_);

  for (size_t i = 0; i < free; ++i) {
    const uint32_t piece = next();
    require(piece < units_ && entries_[piece].units != 0 && entries_[piece].next == kUnlinked);
    link(piece);
  }
  require(saved.empty());
}

// A piece of less than sixteen units has a class of its size alone. Above that, sixteen classes
// share each power of two.
unsigned Suballocator::class_of(uint32_t units) noexcept {
  if (units < (1U << kSplit)) return units;
  const auto power = static_cast<unsigned>(std::bit_width(units)) - 1;
  return ((power - kSplit) << kSplit) + (units >> (power - kSplit));
}

uint32_t Suballocator::find_free(uint32_t units, uint32_t alignment) const noexcept {
  // Nearly all calls take a piece of the first class whose pieces are all long enough, wherever
  // they start, or of a class above.
  const uint64_t reach = uint64_t{units} + alignment - 1;
  const uint64_t step = reach < (2U << kSplit) ? 1 : std::bit_floor(reach) >> kSplit;
  const uint64_t longest = (reach + step - 1) / step * step;
  if (longest <= units_) {
    const unsigned from = class_of(static_cast<uint32_t>(longest));
    for (unsigned word = from / 64; word < filled_.size(); ++word) {
      const uint64_t found =
          filled_[word] & (word == from / 64 ? ~uint64_t{0} << from % 64 : ~uint64_t{0});
      if (found != 0) return first_[word * 64 + static_cast<unsigned>(std::countr_zero(found))];
    }
  }

  // A piece of a smaller class, from that of `units` on, may happen to start at a multiple of
  // `alignment`.
  for (unsigned c = class_of(units); c < kClasses; ++c) {
    for (uint32_t at = first_[c]; at != kEnd; at = entries_[at].next) {
      if (uint64_t{round_up(at, alignment)} + units <= uint64_t{at} + entries_[at].units) return at;
    }
  }
  return kEnd;
}

size_t Suballocator::take(size_t bytes, size_t alignment) {
  if (bytes > this->bytes()) return kNone;
  const auto units = static_cast<uint32_t>((std::max<size_t>(bytes, 1) + kUnit - 1) / kUnit);
  const auto aligned = static_cast<uint32_t>(std::max(alignment, kUnit) / kUnit);
  const uint32_t found = find_free(units, aligned);
  if (found == kEnd) return kNone;

  unlink(found);
  const uint32_t all = entries_[found].units;
  const uint32_t gap = round_up(found, aligned) - found;
  const uint32_t at = found + gap;
  const uint32_t rest = all - gap - units;

  if (gap != 0) {
    start(found, gap, entries_[found].before);
    link(found);
  }
  start(at, units, gap != 0 ? gap : entries_[at].before);
  entries_[at].next = kUsed;
  entries_[at].previous = static_cast<uint32_t>(size_t{units} * kUnit - bytes);
  if (rest != 0) {
    start(at + units, rest, units);
    link(at + units);
  }

  ++pieces_;
  used_ += units;
  peak_ = std::max(peak_, used_);
  return size_t{at} * kUnit;
}

void Suballocator::give(const Piece& used) {
  auto at = static_cast<uint32_t>(used.offset / kUnit);
  uint32_t units = entries_[at].units;
  uint32_t before = entries_[at].before;
  --pieces_;
  used_ -= units;

  const uint32_t after = at + units;
  if (after < units_ && entries_[after].next != kUsed) {
    units += entries_[after].units;
    unlink(after);
    forget(after);
  }
  if (before != 0 && entries_[at - before].next != kUsed) {
    forget(at);
    at -= before;
    unlink(at);
    units += before;
    before = entries_[at].before;
  }

  start(at, units, before);
  link(at);
}

Suballocator::Piece Suballocator::at(size_t offset) const {
  const uint32_t start = start_before(static_cast<uint32_t>(offset / kUnit));
  const Entry& entry = entries_[start];
  const bool used = entry.next == kUsed;
  return {size_t{start} * kUnit, size_t{entry.units} * kUnit - (used ? entry.previous : 0), used};
}

size_t Suballocator::largest_free() const noexcept {
  uint32_t largest = 0;
  for (unsigned c = kClasses; largest == 0 && c-- > 0;) {
    for (uint32_t at = first_[c]; at != kEnd; at = entries_[at].next) {
      largest = std::max(largest, entries_[at].units);
    }
  }
  return size_t{largest} * kUnit;
}

void Suballocator::start(uint32_t at, uint32_t units, uint32_t before) {
  entries_[at].units = units;
  entries_[at].before = before;
  if (at + uint64_t{units} < units_) entries_[at + units].before = units;

  size_t bit = at;
  for (const auto& level : starts_) {
    const uint64_t was = level[bit / 64];
    level[bit / 64] = was | uint64_t{1} << bit % 64;
    if (was != 0) break;
    bit /= 64;
  }
}

void Suballocator::forget(uint32_t at) {
  entries_[at].units = 0;

  size_t bit = at;
  for (const auto& level : starts_) {
    uint64_t& word = level[bit / 64];
    word &= ~(uint64_t{1} << bit % 64);
    if (word != 0) break;
    bit /= 64;
  }
}

// Returns the nearest start at or before a unit. There is always one at 0.
uint32_t Suballocator::start_before(uint32_t at) const noexcept {
  size_t bit = at;
  size_t level = 0;
  uint64_t found = starts_[0][bit / 64] & (~uint64_t{0} >> (63 - bit % 64));
  while (found == 0) {
    bit /= 64;
    ++level;
    found = starts_[level][bit / 64] & ((uint64_t{1} << bit % 64) - 1);
  }

  for (;;) {
    bit = bit / 64 * 64 + static_cast<size_t>(std::bit_width(found)) - 1;
    if (level == 0) return static_cast<uint32_t>(bit);
    --level;
    found = starts_[level][bit];
    bit *= 64;
  }
}

// The piece freed last is the first of its class to be taken again.
void Suballocator::link(uint32_t at) {
  const unsigned c = class_of(entries_[at].units);
  entries_[at].previous = kEnd;
  entries_[at].next = first_[c];
  if (first_[c] != kEnd) entries_[first_[c]].previous = at;
  first_[c] = at;
  filled_[c / 64] |= uint64_t{1} << c % 64;
  ++free_pieces_;
}

void Suballocator::unlink(uint32_t at) {
  const unsigned c = class_of(entries_[at].units);
  const auto [units, before, next, previous] = entries_[at];
  if (next != kEnd) entries_[next].previous = previous;

  if (previous != kEnd) {
    entries_[previous].next = next;
  } else {
    first_[c] = next;
    if (next == kEnd) filled_[c / 64] &= ~(uint64_t{1} << c % 64);
  }
  --free_pieces_;
}
}  // namespace symm
