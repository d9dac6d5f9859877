// Memories and heaps that move to another group, of ranks that have them and of newcomers.
//
// A move is a rendezvous before which the ranks tell each other what they bring: a memory, which is
// the same for all that bring one, or nothing. A newcomer, which brings nothing, learns from them
// how large its block is to be, and of a heap which pieces are in use. From then on:
//   - blocks that a rank has mapped stay at their addresses;
//   - pads are new memory, so no signal of a rank that is gone, or still writes, is in them. If all
//     ranks have the numbers that they had (`in_place`), the new pads are mapped at the addresses
//     of the old ones, and the tables of the memory stay where they are and show the new blocks.
//     On a device nothing may be at work meanwhile, and graphs of the old group end before.
// Nothing changes before all ranks that live have agreed on the outcome (agreement.hpp). So all of
// them have the memory on the new group, or all have it where it was, and can move it again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/deadline.hpp"
#include "core/group/group.hpp"
#include "core/group/memory.hpp"

namespace symm {
struct Moving {
  std::shared_ptr<Memory> from;  // null: this rank is a newcomer
  std::vector<int> former;       // by rank: its rank in the group of `from`; -1: a newcomer
  bool in_place = false;
  // Called when this rank has done its part. Throws what any rank has failed with.
  std::function<void()> agree;
};

// [collective] A rendezvous from its first step to its last. `moving`: null if nothing moves.
std::shared_ptr<Memory> meet(const std::shared_ptr<Group>& group, const Memory::MakeBuffer& make,
    uint64_t tag, int channels, Deadline deadline, const Moving* moving);

// How long a rendezvous waits for processes to end that may still write to its buffer.
uint64_t patience_with_stragglers(const Group& group, uint64_t timeout_ms);
}  // namespace symm
