// Rounds in which ranks publish data in their own scratch and others take it from there: the
// shape of one-shot and of most staged algorithms. There are three slots, so that filling the
// next one hides the wait for the others.
//
// Why no slot is overwritten while it is read: round r + 1 is filled into the slot of
// round r - 2 after this rank has seen the readers' announcement r - 1, which each
// makes after its take of round r - 2.
#pragma once

#include <cstddef>

#include "kernels/host/arithmetic/reduce.hpp"
#include "kernels/host/execution.hpp"
#include "kernels/host/operands.hpp"
#include "kernels/host/slices.hpp"
#include "kernels/host/steps.hpp"

namespace symm::host {
inline constexpr size_t kSlots = 3;
inline constexpr int kEveryRank = -1;

struct Part {
  bool publishes = true;
  bool takes = true;
  int peer = kEveryRank;  // the rank to exchange slots with, or every rank
};

// Offset of a round's slot in every rank's scratch.
constexpr size_t slot_of(size_t round, size_t slot_bytes) noexcept {
  return round % kSlots * slot_bytes;
}

// Moves data through slots of scratch: fill(round) writes this rank's slot, take(round) reads those
// of other ranks. There is at least one round. If its slot was `announced` by entering the call, it
// is filled already.
template <class Fill, class Take>
void publish(
    const Execution& x, size_t rounds, Part part, Fill fill, Take take, bool announced = false) {
  Steps steps(x);
  if (part.publishes && !announced) fill(size_t{0});
  if (!announced) steps.announce();

  for (size_t round = 0; round < rounds; ++round) {
    if (part.publishes && round + 1 < rounds) fill(round + 1);
    // A rank that only publishes need not wait for the readers of the last slots: the next call
    // uses the other half of scratch.
    if (part.takes || round + 2 < rounds) {
      if (part.peer == kEveryRank) {
        steps.await_all();
      } else {
        steps.await(part.peer);
      }
    }
    if (part.takes) take(round);
    if (round + 1 < rounds) steps.announce();
  }
}

// Divides `bytes` into chunks as planned: into one if the plan names no chunk.
inline Chunks planned_chunks(const Execution& x, size_t bytes) noexcept {
  return {bytes, x.plan.chunk_bytes == 0 ? bytes : x.plan.chunk_bytes};
}

// Publishes the operand, one chunk in each round. take(chunk, at) finds the chunk at offset
// `at` of every publisher's scratch.
template <class Take>
void publish_operand(const Execution& x, Part part, Take take) {
  const Chunks chunks = planned_chunks(x, bytes_of(x));
  const size_t slot_bytes = chunks[0].size();
  publish(
      x, chunks.count(), part,
      [&](size_t round) {
        copy_to_peer(scratch_of(x, x.rank) + slot_of(round, slot_bytes),
            x.send() + chunks[round].begin, chunks[round].size(), false);
      },
      [&](size_t round) { take(chunks[round], slot_of(round, slot_bytes)); });
}

// Publishes every other rank's block. A slot holds one chunk of every block; take(chunk, at)
// finds this rank's chunk at offset `at` of every publisher's scratch.
template <class Take>
void publish_blocks(const Execution& x, Take take) {
  const size_t block = bytes_of(x);
  const Chunks chunks = planned_chunks(x, block);
  const size_t piece = chunks[0].size();
  const size_t slot_bytes = piece * static_cast<size_t>(x.size);

  publish(
      x, chunks.count(), Part{},
      [&](size_t round) {
        std::byte* to = scratch_of(x, x.rank) + slot_of(round, slot_bytes);
        const std::byte* from = x.send() + chunks[round].begin;
        for (int peer = 0; peer < x.size; ++peer, to += piece, from += block) {
          if (peer != x.rank) copy_to_peer(to, from, chunks[round].size(), false);
        }
      },
      [&](size_t round) {
        take(chunks[round], slot_of(round, slot_bytes) + piece * static_cast<size_t>(x.rank));
      });
}
}  // namespace symm::host
