// The layout of a rank's control block. All sizes follow from the number of ranks and from
// their tuning, which are equal on all ranks; so every rank knows every other one's layout.
#pragma once

#include <cstdint>

#include "kernels/cuda/args.hpp"
#include "kernels/cuda/tuning.hpp"

namespace symm::cuda {
// The places of a control block. Stages, and what is wide, are touched only while a kernel of
// this rank runs. So they may lie in the block of another group, whose kernels take turns with
// this one's.
struct Layout : ScratchPlaces {
  uint64_t memories;
  // MessageWords.
  uint64_t messages;
  uint64_t wide;
  // Bytes of a slot for messages in the stages.
  uint64_t message_slot;
  // All bytes of the block.
  uint64_t bytes;
  // Bytes of the other group's block that this one works in, or 0.
  uint64_t lent;
};

// Whether a group of `size` ranks has the kernels and the control words of large groups.
inline bool is_large(int size, const Tuning& tuning) { return size > kSmallRanks || tuning.large; }

// `channels`: those on which messages go.
Layout layout_of(int size, const Tuning& tuning, const Layout* lender = nullptr, int channels = 0);

inline uint64_t scratch_bytes(const Layout& layout) { return layout.bytes - layout.ll; }

// `tuning` for scratch of at most `most` bytes, or of as few as are possible.
Tuning within_scratch(int size, Tuning tuning, uint64_t most);

// `tuning` for the stages of a group of as many ranks or more, which has `of_lender`.
Tuning within_stages(int size, Tuning tuning, const Layout& lender, const Tuning& of_lender);

// ---- sizes that layouts and plans share

inline constexpr uint64_t kKi = 1024;
// Bytes that a warp moves at a time.
inline constexpr uint64_t kLine = 512;

constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

constexpr uint64_t divide_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit; }

// The other ranks; 1 where there are none, so that it can divide.
constexpr uint64_t others(int size) { return size > 1 ? static_cast<uint64_t>(size - 1) : 1; }

// Bytes of a slot in a stage that has `slots` of them for each other rank.
uint64_t stage_slot_bytes(int size, const Tuning& tuning, int slots);

// Blocks of pieces.cu that wait for those of other ranks, at most.
int pieces_blocks(const Tuning& tuning);

// Bytes that a slot of pieces.cu takes.
uint64_t pieces_slot_bytes(int size, const Tuning& tuning);

// Bytes of a chunk of two shots: a whole number of packs for each rank, so that the slices of
// full chunks are equal.
uint64_t two_shot_chunk_bytes(int size, const Tuning& tuning);

// Bytes that half of the scratch of two shots has for each source, where there is one shot only.
uint64_t one_shot_slot_bytes(int size, const Tuning& tuning);
}  // namespace symm::cuda
