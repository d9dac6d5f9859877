// The control segment of one rank in one group: the words by which it
// announces where it is, and its scratch. Only its owner writes it, with
// two exceptions that have one writer each all the same: byte r of
// `waiters` belongs to rank r, and so does word r of each row of `pairs`.
//
// Everything a peer reads here is treated as untrusted: indices
// and sizes never come from this memory without a check.
#pragma once

#include "core/backend/segment.hpp"
#include "kernels/host/execution.hpp"
#include "kernels/host/slices.hpp"

namespace symm::host {
// Take a line away from the ranks that read it last, without
// waiting for it. A store that comes later then finds it here,
// which is worth a third of a small collective. Never faults.
inline void prefetch_for_write(const void* line) noexcept {
#if defined(__x86_64__)
  // gcc makes a plain prefetch of __builtin_prefetch()
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

// Entering call number `op` publishes this line. Two alternate.
struct alignas(kLine) EntryLine {
  Word op;
  uint32_t hash;  // of the arguments that must agree
  std::byte payload[kEntryPayload];
};
static_assert(sizeof(EntryLine) == kLine);

// The arguments themselves, read by a peer only when hashes differ, to say what does.
struct alignas(kLine) SignatureLine {
  CallSignature signature;
};

struct alignas(kLine) WordLine {
  Word word;
};

// What the owner is waiting for, if anything: asked by a peer whose deadline passes
// while it waits for the owner. For blame only.
struct alignas(kLine) WaitLine {
  Word peer;  // rank + 1, or 0
  Word in_own_segment;
  Word offset;  // of the awaited word in the peer's segment, or the owner's
  Word target;
};

struct ControlHeader {
  uint64_t magic;
  uint64_t group;
  int32_t rank;
  int32_t size;
  int32_t channels;
  uint32_t layout;  // version of what follows
};
inline constexpr uint64_t kControlMagic = 0x316c74636d6d7973;  // "symmctl1"
inline constexpr uint32_t kControlLayout = 5;

class Control {
 public:
  // Half of the scratch: of at most `most` bytes in all, or as
  // is fastest if that is 0. `together`: ranks of the machine
  // that has most of them, of several; 0: there is one.
  static size_t scratch_half(int size, int together, uint64_t most);
  static size_t bytes(int size, int channels, size_t half);

  Control() = default;  // of a rank on another machine
  Control(std::shared_ptr<Segment> segment, int size, int channels, size_t half);

  bool is_mapped() const noexcept { return base_ != nullptr; }
  ControlHeader& header() const { return at<ControlHeader>(0)[0]; }
  EntryLine& entry(uint32_t op) const { return at<EntryLine>(kEntries)[op & 1U]; }
  CallSignature& signature(uint32_t op) const {
    return at<SignatureLine>(kSignatures)[op & 1U].signature;
  }
  Word& step() const { return at<WordLine>(kStep)->word; }
  // Not 0 once the owner has left a call with an error.
  // From then on its operands are its caller's again.
  Word& gave_up() const { return at<WordLine>(kGaveUp)->word; }
  WaitLine& waiting() const { return *at<WaitLine>(kWaiting); }
  // How often the owner has come to the barrier of all ranks on a channel, for its
  // count-th barrier there: two lines alternate, so that one can be claimed while the
  // other is read. One channel more than users have, for finalize.
  Word& barrier(int channel, uint32_t count) const {
    return at<WordLine>(kBarriers)[static_cast<uint32_t>(channel) * 2 + (count & 1U)].word;
  }
  std::span<Waiter> waiters() const {
    return {at<Waiter>(at_.waiters), static_cast<size_t>(size_)};
  }
  // Barriers of subsets: word [channel][source]
  // counts how often `source` has come for the owner.
  Word& pair(int channel, int source) const {
    return at<Word>(at_.pairs)[(static_cast<size_t>(channel) * static_cast<size_t>(size_) +
                                   static_cast<size_t>(source)) *
                               kPairWords];
  }
  // Beside it, for which set the last two of these were.
  Word& pair_set(int channel, int source, uint32_t count) const {
    return (&pair(channel, source))[1 + (count & 1U)];
  }
  std::span<Waiter> pair_waiter() const { return {at<Waiter>(at_.pair_waiter), 1}; }
  std::byte* scratch(uint32_t op) const { return base_ + at_.scratch + (op & 1U) * half_; }

  bool contains(const Word& word) const {
    const auto* address = reinterpret_cast<const std::byte*>(&word);
    return address >= base_ && address < base_ + at_.scratch;
  }
  uint32_t offset_of(const Word& word) const {
    return static_cast<uint32_t>(reinterpret_cast<const std::byte*>(&word) - base_);
  }
  // Null for what is no word before the scratch.
  const Word* word_at(uint32_t offset) const {
    return offset < at_.scratch && offset % sizeof(Word) == 0 ? at<Word>(offset) : nullptr;
  }

  const std::shared_ptr<Segment>& segment() const { return segment_; }

 private:
  static constexpr size_t kPairWords = 3;
  static constexpr size_t kEntries = kLine;
  static constexpr size_t kSignatures = kEntries + 2 * kLine;
  static constexpr size_t kStep = kSignatures + 2 * kLine;
  static constexpr size_t kGaveUp = kStep + kLine;
  static constexpr size_t kWaiting = kGaveUp + kLine;
  static constexpr size_t kBarriers = kWaiting + kLine;

  struct Offsets {
    size_t waiters, pair_waiter, pairs, scratch;
  };
  static Offsets offsets(int size, int channels);
  template <class T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }

  std::shared_ptr<Segment> segment_;
  std::byte* base_ = nullptr;
  int size_ = 0;
  size_t half_ = 0;
  Offsets at_{};
};

// A signal pad: a word for each channel and source, which the source writes; behind
// them, on lines of their own, the owner's waiter byte, and a bell for each source.
class Pad {
 public:
  using SignalWord = std::atomic<uint64_t>;
  static size_t bytes(int size, int channels) {
    return bells(size, channels) + static_cast<size_t>(size) * sizeof(Word);
  }
  Pad(std::byte* base, int size, int channels) : base_(base), size_(size), channels_(channels) {}
  SignalWord& word(int channel, int source) const {
    return reinterpret_cast<SignalWord*>(
        base_)[static_cast<size_t>(channel) * static_cast<size_t>(size_) +
               static_cast<size_t>(source)];
  }
  Waiter& waiter() const {
    return *reinterpret_cast<Waiter*>(base_ + bells(size_, channels_) - kLine);
  }
  Word& bell(int source) const {
    return reinterpret_cast<Word*>(base_ + bells(size_, channels_))[source];
  }

 private:
  static size_t bells(int size, int channels) {
    const size_t words =
        static_cast<size_t>(channels) * static_cast<size_t>(size) * sizeof(SignalWord);
    return (words + kLine - 1) / kLine * kLine + kLine;
  }
  std::byte* base_;
  int size_, channels_;
};
}  // namespace symm::host
