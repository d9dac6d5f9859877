// Tree order: n ranks are combined as a balanced binary tree, whose left part has the largest power
// of two of ranks that is less than n. A result has the same bits however many ranks, a power of
// two, share some values evenly: what a rank has of them is a subtree.
//
// The tree is made as a binary counter counts. Values 0, 1, ... are taken in their order, and wait:
//   1. When value i is there, it is combined with the last one that waits, and what that gives with
//      the last one then, as often as merges_after(i) says. Each is as many values as the other.
//   2. When all are there, the last one that waits is combined with the one before, and so on.
#pragma once

#include <algorithm>
#include <bit>

namespace symm {
// The tree of so few ranks is their order.
inline constexpr int kRanksInOrder = 3;

constexpr int merges_after(int i) noexcept { return std::countr_one(static_cast<unsigned>(i)); }

// Before value i as many wait as `i` has bits that are 1.
constexpr int waiting_before(int i) noexcept { return std::popcount(static_cast<unsigned>(i)); }

// The ranks of the largest subtree that begins with rank `first` and ends before rank `end`.
constexpr int subtree_at(int first, int end) noexcept {
  const auto room = static_cast<int>(std::bit_floor(static_cast<unsigned>(end - first)));
  return first == 0 ? room : std::min(room, first & -first);
}

// The most that wait at a time, in the largest group.
inline constexpr int kMostWaiting = 16;
}  // namespace symm
