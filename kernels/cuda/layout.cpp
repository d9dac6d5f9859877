// Computes where each part of a control block lies, from numbers that are equal on all ranks.
#include "kernels/cuda/layout.hpp"

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/args.hpp"
#include "kernels/cuda/tuning.hpp"

namespace symm::cuda {
namespace {
constexpr uint64_t kPage = 4096;

uint64_t stage_bytes(int size, const Tuning& tuning) {
  const auto work_groups = static_cast<uint64_t>(tuning.work_groups);
  return round_up(work_groups * kChunkSlots * others(size) * tuning.tile, kPage);
}
}  // namespace

uint64_t stage_slot_bytes(int size, const Tuning& tuning, int slots) {
  const uint64_t of_rank = stage_bytes(size, tuning) / others(size);
  return std::max(kLine, of_rank / static_cast<uint64_t>(slots) / kLine * kLine);
}

int pieces_blocks(const Tuning& tuning) { return std::min(tuning.work_groups, kPiecesBlocks); }

uint64_t pieces_slot_bytes(int size, const Tuning& tuning) {
  return stage_slot_bytes(size, tuning, pieces_blocks(tuning) * static_cast<int>(kSlots));
}

uint64_t two_shot_chunk_bytes(int size, const Tuning& tuning) {
  return round_up(tuning.two_shot_chunk, kPack * static_cast<uint64_t>(size));
}

uint64_t one_shot_slot_bytes(int size, const Tuning& tuning) {
  return 2 * two_shot_chunk_bytes(size, tuning) / static_cast<uint64_t>(size);
}

Layout layout_of(int size, const Tuning& tuning, const Layout* lender, int channels) {
  const auto n = static_cast<uint64_t>(size);
  Layout layout{};
  const bool large = is_large(size, tuning);
  const uint64_t words =
      large ? sizeof(ControlWordsOf<kMaxRanks>) : sizeof(ControlWordsOf<kSmallRanks>);
  const uint64_t entry =
      large ? sizeof(MemoryEntryOf<kMaxRanks>) : sizeof(MemoryEntryOf<kSmallRanks>);
  uint64_t at = round_up(words, kPage);
  const auto take = [&](uint64_t bytes) {
    const uint64_t start = at;
    at = round_up(at + bytes, kPage);
    return start;
  };

  layout.memories = take(kMaxMemories * entry);
  layout.messages = take(flow_at(0, size, static_cast<uint32_t>(channels), 0));
  layout.ll_slot = round_up(divide_up(tuning.ll_max, kPack) + 1, kLlPacks) * 2 * kPack;
  layout.ll = take(2 * n * layout.ll_slot);

  // One shot and two shots use the same memory.
  layout.two_shot_slot = two_shot_chunk_bytes(size, tuning) / n;
  layout.two_shot = take(4 * (n - 1) * layout.two_shot_slot);
  layout.one_shot_slot = 2 * layout.two_shot_slot;
  layout.one_shot = layout.two_shot;

  layout.stage_slot = pieces_slot_bytes(size, tuning);
  if (lender != nullptr) {
    layout.bytes = at;
    layout.lent = lender->lent != 0 ? lender->lent : lender->bytes - lender->stage[0];
    at = lender->stage[0];
  }
  for (uint64_t& stage : layout.stage) {
    stage = take(stage_bytes(size, tuning));
  }
  layout.wide = lender != nullptr ? lender->wide : take(tuning.wide);
  if (lender == nullptr) layout.bytes = at;

  const uint64_t stages = lender != nullptr ? layout.lent : layout.bytes - layout.stage[0];
  layout.message_slot = stages / kMessageSlots / kPack * kPack;
  return layout;
}

Tuning within_stages(int size, Tuning tuning, const Layout& lender, const Tuning& of_lender) {
  const auto fits = [&] { return 2 * stage_bytes(size, tuning) <= lender.wide - lender.stage[0]; };

  while (!fits() && tuning.tile > of_lender.tile) {
    tuning.tile = std::max(of_lender.tile, tuning.tile / 2);
  }
  if (!fits()) tuning.work_groups = std::min(tuning.work_groups, of_lender.work_groups);
  tuning.wide = of_lender.wide;
  return tuning;
}

// Halves what takes most of the scratch, until the scratch is small enough or nothing can be
// halved any more.
Tuning within_scratch(int size, Tuning tuning, uint64_t most) {
  const auto n = static_cast<uint64_t>(size);

  while (scratch_bytes(layout_of(size, tuning)) > most) {
    auto work_groups = static_cast<uint64_t>(tuning.work_groups);

    // A part of the scratch takes `bytes`, which follow from `value`, which is `least` or more.
    struct ScratchPart {
      uint64_t bytes;
      uint64_t* value;
      uint64_t least;
    } const parts[] = {
        {2 * stage_bytes(size, tuning), tuning.tile > 8 * kKi ? &tuning.tile : &work_groups,
            uint64_t{2}},
        {4 * tuning.two_shot_chunk * (n - 1) / n, &tuning.two_shot_chunk, 16 * kKi},
        {tuning.wide, &tuning.wide, 64 * kKi},
        {4 * n * tuning.ll_max, &tuning.ll_max, kKi},
    };

    const ScratchPart* largest = nullptr;
    for (const ScratchPart& part : parts) {
      if (*part.value <= part.least) continue;
      if (largest == nullptr || part.bytes > largest->bytes) largest = &part;
    }
    if (largest == nullptr) break;

    *largest->value /= 2;
    tuning.work_groups = static_cast<int>(work_groups);
  }
  return tuning;
}
}  // namespace symm::cuda
