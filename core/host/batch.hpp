// The small calls of a batch that are done as one. Ranks wait for each other once a call, which for
// small operands takes longer than to copy them: so calls of one kind are laid side by side, and
// one call does them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/host/control.hpp"
#include "kernels/collective_call.hpp"

namespace symm::host {
// Bytes of the larger operand of a call that is merged with others, and of all of them together,
// and the number of these. Equal on all ranks, which choose the calls by it. Where each rank has a
// processor of its own, 8 KB is the size from which to copy the operands takes as long as to wait
// once more; docs/performance.md has the figures.
inline constexpr size_t kMostMergeable = size_t{8} << 10;
inline constexpr size_t kMostMerged = size_t{256} << 10;
inline constexpr size_t kMostMembers = MemberTable::kMost;

// Calls that can be done as one, or a single call.
using MergeableCalls = std::vector<const CollectiveCall*>;

// Divides the calls of a batch into parts, in the order of their first calls. What decides is equal
// on all ranks: kinds, roots and counts.
std::vector<MergeableCalls> parts_of(std::span<const CollectiveCall> calls, int ranks);

// The operands of calls that are merged. Block r of the merged send is made of block r of each
// send, and so is block r of the merged recv. Since calls work on each element by itself, in the
// order of ranks, the results have the same bits.
class MergedOperands {
 public:
  // Copies what this rank sends, and returns the call of all. Its time-out is not set.
  CollectiveCall gather(std::span<const CollectiveCall* const> calls, int rank, int ranks);
  // Copies what this rank has received to where the calls want it.
  void scatter(std::span<const CollectiveCall* const> calls, int rank, int ranks) const;
  // The calls that the merged one is made of, by which ranks say which of them differs.
  std::span<const Member> members() const noexcept { return members_; }

 private:
  uint32_t show(std::span<const CollectiveCall* const> calls);

  std::vector<Member> members_;
  std::vector<std::byte> send_;
  std::vector<std::byte> recv_;
};
}  // namespace symm::host
