// The suballocator is compared with a list of the pieces in use: pieces never overlap, free
// neighbours are joined, a request that fits is granted, and equal calls have equal answers.
#include "core/group/suballocator.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "core/base/error.hpp"
#include "tests/support/test.hpp"

namespace symm {
namespace {
constexpr size_t round_up(size_t number, size_t unit) { return (number + unit - 1) / unit * unit; }

// The pieces in use, by offset, and what lies between them.
struct Reference {
  size_t bytes;
  std::map<size_t, size_t> used;

  template <class Visit>
  void gaps(const Visit& visit) const {
    size_t at = 0;
    for (const auto& [offset, size] : used) {
      if (offset > at) visit(at, offset);
      at = offset + round_up(size, Suballocator::kUnit);
    }
    if (bytes > at) visit(at, bytes);
  }

  bool fits(size_t size, size_t alignment) const {
    bool found = false;
    gaps([&](size_t from, size_t to) {
      found = found || round_up(from, std::max(alignment, Suballocator::kUnit)) +
                               round_up(size, Suballocator::kUnit) <=
                           to;
    });
    return found;
  }
};

void expect_as(const Suballocator& pieces, const Reference& reference) {
  size_t gaps = 0;
  size_t largest = 0;
  size_t free = 0;
  reference.gaps([&](size_t from, size_t to) {
    ++gaps;
    free += to - from;
    largest = std::max(largest, to - from);
  });

  ASSERT_EQ(pieces.free_pieces(), gaps);
  ASSERT_EQ(pieces.largest_free(), largest);
  ASSERT_EQ(pieces.bytes() - pieces.used(), free);
  ASSERT_EQ(pieces.pieces(), reference.used.size());
}

TEST(Suballocator, IsAsItsReference) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Reference reference{Suballocator::kUnit * (1 + random() % 9000), {}};
    Suballocator one(reference.bytes);
    Suballocator other(reference.bytes);

    for (int call = 0; call < 1500; ++call) {
      if (reference.used.empty() || random() % 100 < 55) {
        const size_t size = 1 + random() % (random() % 4 == 0 ? 300'000 : 6000);
        const size_t alignment = size_t{1} << random() % 16;
        const size_t offset = one.take(size, alignment);
        ASSERT_EQ(other.take(size, alignment), offset) << "the same calls, another answer";
        ASSERT_EQ(offset != Suballocator::kNone, reference.fits(size, alignment))
            << size << " at " << alignment;

        if (offset == Suballocator::kNone) continue;
        ASSERT_EQ(offset % std::max(alignment, Suballocator::kUnit), 0U);
        ASSERT_LE(offset + size, reference.bytes);

        const auto after = reference.used.lower_bound(offset);
        ASSERT_TRUE(after == reference.used.end() || offset + size <= after->first);
        ASSERT_TRUE(after == reference.used.begin() ||
                    std::prev(after)->first + std::prev(after)->second <= offset);
        reference.used[offset] = size;
      } else {
        const auto chosen =
            std::next(reference.used.begin(), static_cast<long>(random() % reference.used.size()));
        const Suballocator::Piece piece = one.at(chosen->first + random() % chosen->second);
        ASSERT_TRUE(piece.used);
        ASSERT_EQ(piece.offset, chosen->first);
        ASSERT_EQ(piece.bytes, chosen->second);
        one.give(piece);
        other.give(other.at(chosen->first));
        ASSERT_FALSE(one.at(chosen->first).used);
        reference.used.erase(chosen);
      }
      expect_as(one, reference);
    }

    while (!reference.used.empty()) {
      one.give(one.at(reference.used.begin()->first));
      reference.used.erase(reference.used.begin());
    }
    expect_as(one, reference);
  }
}

// One that was saved and loaded, in another process, answers as the one that went on.
TEST(Suballocator, IsSavedAndLoaded) {
  std::mt19937_64 random(3);
  constexpr size_t kBytes = Suballocator::kUnit * 5000;
  Suballocator one(kBytes);
  std::vector<size_t> used;
  const auto call = [&](Suballocator& pieces, uint64_t drawn, std::vector<size_t>& taken) {
    if (taken.size() > 5 && drawn % 100 < 48) {
      const auto at = static_cast<std::ptrdiff_t>(drawn / 100 % taken.size());
      pieces.give(pieces.at(taken[static_cast<size_t>(at)]));
      taken.erase(taken.begin() + at);
      return Suballocator::kNone;
    }
    const size_t offset = pieces.take(1 + drawn / 100 % 9000, size_t{1} << drawn / 7 % 14);
    if (offset != Suballocator::kNone) taken.push_back(offset);
    return offset;
  };

  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 100; ++i) {
      call(one, random(), used);
    }
    const std::vector<uint32_t> saved = one.save();
    Suballocator other(kBytes, saved);
    EXPECT_EQ(other.used(), one.used());
    EXPECT_EQ(other.peak(), one.peak());
    EXPECT_EQ(other.pieces(), one.pieces());
    EXPECT_EQ(other.free_pieces(), one.free_pieces());
    EXPECT_EQ(other.largest_free(), one.largest_free());
    EXPECT_EQ(other.save(), saved);
    std::vector<size_t> used_by_other = used;
    for (int i = 0; i < 200; ++i) {
      const uint64_t drawn = random();
      ASSERT_EQ(call(one, drawn, used), call(other, drawn, used_by_other));
    }
  }
}

// What a peer tells is checked: any other number than a suballocator would save is refused, or is
// what another one would save. Nothing outside of the tables is touched, which ASan watches.
TEST(Suballocator, LoadsNothingThatCannotBe) {
  constexpr size_t kBytes = Suballocator::kUnit * 64;
  Suballocator one(kBytes);
  std::vector<size_t> offsets;
  for (int i = 0; i < 8; ++i) {
    offsets.push_back(one.take(1000, 0));
  }
  for (const int i : {1, 3, 6}) {
    one.give(one.at(offsets[static_cast<size_t>(i)]));
  }

  const std::vector<uint32_t> saved = one.save();
  const auto refused = [&](std::span<const uint32_t> numbers) {
    try {
      const Suballocator other(kBytes, numbers);
      EXPECT_EQ(other.save(), std::vector<uint32_t>(numbers.begin(), numbers.end()));
      return false;
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::peer_failed) << error.what();
      return true;
    }
  };
  EXPECT_FALSE(refused(saved));
  for (size_t size = 0; size < saved.size(); ++size) {
    EXPECT_TRUE(refused(std::span(saved).first(size))) << size;
  }
  size_t refusals = 0;
  for (size_t at = 0; at < saved.size(); ++at) {
    for (const uint32_t number : {0U, 1U, 5U, 63U, 64U, 255U, 256U, UINT32_MAX, UINT32_MAX - 1}) {
      std::vector<uint32_t> changed = saved;
      changed[at] = number;
      if (refused(changed)) ++refusals;
    }
  }
  EXPECT_GT(refusals, saved.size() * 6);
}

// Many classes and several levels of the map of starts,
// without the memory: nothing of the range itself is touched.
TEST(Suballocator, OfATerabyte) {
  SYMM_NOT_UNDER_TSAN("one thread");
  Suballocator pieces(size_t{1} << 36);
  const size_t half = size_t{1} << 35;

  EXPECT_EQ(pieces.take(half + 1, 1), 0U);
  EXPECT_EQ(pieces.take(half, 1), Suballocator::kNone);
  EXPECT_EQ(pieces.take(half - 256, 1), half + 256);
  EXPECT_EQ(pieces.at((size_t{1} << 36) - 1).offset, half + 256);

  pieces.give(pieces.at(half));
  EXPECT_EQ(pieces.take(4096, size_t{1} << 34), 0U);
  EXPECT_EQ(pieces.take(4096, size_t{1} << 34), size_t{1} << 34);

  EXPECT_EQ(pieces.free_pieces(), 2U);
  EXPECT_EQ(pieces.peak(), size_t{1} << 36);
}
}  // namespace
}  // namespace symm
