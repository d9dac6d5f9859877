// The control segment of one rank in one group: the words by which the rank announces its
// progress, its scratch memory, and its mailboxes.
//
// Every word has one writer. The owner of the segment writes nearly all of it; byte r of
// `waiters`, word r of each row of `pairs`, and the mailbox of rank r are written by rank r alone.
//
// A peer does not trust what it reads here: no index and no size is used before a check.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/backend/backend.hpp"
#include "core/backend/segment.hpp"
#include "core/base/futex.hpp"
#include "core/base/wait.hpp"
#include "core/host/mailbox.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/host/execution.hpp"
#include "kernels/host/slices.hpp"

namespace symm::host {
// The line by which a rank enters call number `op`. Two lines alternate from call to call.
struct alignas(kLine) EntryLine {
  Word op;
  uint32_t hash;  // hash of the arguments that must agree
  std::byte payload[kEntryPayload];
};
static_assert(sizeof(EntryLine) == kLine);

// The arguments behind EntryLine::hash. A peer reads them only when the hashes differ, to say
// which argument does.
struct alignas(kLine) SignatureLine {
  CallSignature signature;
};
static_assert(sizeof(SignatureLine) == kLine);

// One of the calls of a batch that are made as one, packed.
struct Member {
  uint64_t signature;
  uint64_t count;
  uint32_t index;  // in the batch

  CallSignature unpacked() const {
    CallSignature call = CallSignature::unpacked(signature, count);
    call.batch = {call.batch.calls, index};
    return call;
  }
};

// The calls that call number `op` is made of. A peer reads them only when the hashes differ, to say
// which of them does. They are valid if the signature says that there are several.
struct alignas(kLine) MemberTable {
  static constexpr size_t kMost = 64;
  uint32_t count;
  Member members[kMost];
};

struct alignas(kLine) WordLine {
  Word word;
};

// The calls of a rank that wait for other ranks lie in lanes. A rank has one wait at most in a lane
// at a time: collectives take turns, barriers of a channel do, and of calls that wait for messages
// only the first one is shown. A rank that waits in one lane is not in a call of another lane,
// unless another thread of it is.
namespace lane {
inline constexpr uint32_t kCollective = 0;
inline constexpr uint32_t kGet = 1;
inline constexpr uint32_t kMessages = 2;
inline constexpr uint32_t kCalls = 3;                          // and the MessageCall
inline constexpr uint32_t kBarriers = kCalls + kMessageCalls;  // and the channel
inline uint32_t of(MessageCall call) noexcept { return kCalls + static_cast<uint32_t>(call); }
inline bool is_of_messages(uint32_t lane) noexcept { return lane >= kGet && lane < kBarriers; }
}  // namespace lane

// The rank and the word that the owner waits for in a lane, if any. A peer whose wait
// for the owner has become long reads these lines, to find out whether the ranks are in
// different calls, and which rank is to blame; nothing else depends on them.
struct alignas(kLine) WaitLine {
  static constexpr uint32_t kNoWord = UINT32_MAX;
  Word peer;  // rank + 1, or 0
  Word in_own_segment;
  Word offset;  // where the awaited word lies in the segment of the peer, or of the owner
  Word target;  // without a word, the number of the wait
  // Without a word: how often the owner has looked for the message, and what the call is about.
  Word looks;
  Word about;
};

// The collective in which the owner has waited for long. It is that of the wait for `target`.
struct alignas(kLine) CallLine {
  Word target;
  CallSignature signature;
};

// The refusal of the arguments of the owner's last call, in a group that checks.
struct alignas(kLine) RefusalLine {
  Word stands;  // not 0: the owner has made no call of all ranks since
  Word count;   // the refusals so far
  char text[4 * kLine - 2 * sizeof(Word)];
};

struct ControlHeader {
  uint64_t magic;
  uint64_t group;
  int32_t rank;
  int32_t size;
  int32_t channels;
  uint32_t layout;   // number of the segment's layout (core/base/layouts.hpp)
  uint32_t library;  // version of the owner's library
  uint32_t unused;
};
inline constexpr uint64_t kControlMagic = 0x316c74636d6d7973;  // "symmctl1"

class Control {
 public:
  // Bytes of one of the two halves of the scratch. `most` bounds both halves together; 0 asks for
  // the fastest size. `together` is the largest number of ranks on one machine, or 0 if the group
  // has one machine only.
  static size_t scratch_half(int size, int together, uint64_t most);
  static size_t bytes(int size, int channels, size_t half, const MailboxShape& mailboxes);

  // The segment of a rank on another machine, which cannot be mapped.
  Control() = default;
  Control(std::shared_ptr<Segment> segment, int size, int channels, size_t half,
      const MailboxShape& mailboxes);

  bool is_mapped() const noexcept { return base_ != nullptr; }
  ControlHeader& header() const { return at<ControlHeader>(0)[0]; }
  EntryLine& entry(uint32_t op) const { return at<EntryLine>(kEntries)[op & 1U]; }
  CallSignature& signature(uint32_t op) const {
    return at<SignatureLine>(kSignatures)[op & 1U].signature;
  }
  MemberTable& members(uint32_t op) const { return at<MemberTable>(kMembers)[op & 1U]; }
  Word& step() const { return at<WordLine>(kStep)->word; }
  // Set to non-zero when the owner leaves a call with an error: its caller may then reuse operands.
  Word& gave_up() const { return at<WordLine>(kGaveUp)->word; }
  WaitLine& waiting(uint32_t lane) const { return at<WaitLine>(at_.waiting)[lane]; }
  uint32_t lanes() const noexcept { return at_.lanes; }
  RefusalLine& refusal() const { return *at<RefusalLine>(kRefusal); }
  CallLine& long_call() const { return *at<CallLine>(kLongCall); }
  // The number of threads of the owner that have been seen in long waits of this
  // group: 0, 1, or 2 for more.
  Word& threads() const { return at<WordLine>(kThreads)->word; }
  // The number of barriers of all ranks that the owner has entered on a channel, as published for
  // its count-th barrier there. Two lines alternate, so that one can be prefetched for writing
  // while peers read the other. One more channel than users have serves finalize.
  Word& barrier(int channel, uint32_t count) const {
    return at<WordLine>(kBarriers)[static_cast<uint32_t>(channel) * 2 + (count & 1U)].word;
  }
  std::span<Waiter> waiters() const {
    return {at<Waiter>(at_.waiters), static_cast<size_t>(size_)};
  }
  // Barriers of subsets: word [channel][source] counts the arrivals of `source` for the owner.
  Word& pair(int channel, int source) const {
    return at<Word>(at_.pairs)[(static_cast<size_t>(channel) * static_cast<size_t>(size_) +
                                   static_cast<size_t>(source)) *
                               kPairWords];
  }
  // The sets of ranks of the last two arrivals that pair(channel, source) counts.
  Word& pair_set(int channel, int source, uint32_t count) const {
    return (&pair(channel, source))[1 + (count & 1U)];
  }
  std::span<Waiter> pair_waiter() const { return {at<Waiter>(at_.pair_waiter), 1}; }
  std::byte* scratch(uint32_t op) const { return base_ + at_.scratch + (op & 1U) * half_; }
  // The threads of the owner that sleep until messages come, or go on.
  Waiter& message_waiter() const { return *at<Waiter>(at_.message_waiter); }
  // The mailbox that the rank with the number `source` on this machine writes.
  Mailbox mailbox(int source) const {
    return {base_ + at_.scratch + 2 * half_ + static_cast<size_t>(source) * mailboxes_.bytes(),
        mailboxes_};
  }

  bool contains(const Word& word) const {
    const auto* address = reinterpret_cast<const std::byte*>(&word);
    return address >= base_ && address < base_ + at_.scratch;
  }
  uint32_t offset_of(const Word& word) const {
    return static_cast<uint32_t>(reinterpret_cast<const std::byte*>(&word) - base_);
  }
  // The word at an offset; null unless the offset is that of a word before the scratch.
  const Word* word_at(uint32_t offset) const {
    return offset < at_.scratch && offset % sizeof(Word) == 0 ? at<Word>(offset) : nullptr;
  }

  const std::shared_ptr<Segment>& segment() const { return segment_; }

 private:
  static constexpr size_t kPairWords = 3;
  static constexpr size_t kEntries = kLine;
  static constexpr size_t kSignatures = kEntries + 2 * kLine;
  static constexpr size_t kStep = kSignatures + 2 * sizeof(SignatureLine);
  static constexpr size_t kGaveUp = kStep + kLine;
  static constexpr size_t kThreads = kGaveUp + kLine;
  static constexpr size_t kLongCall = kThreads + kLine;
  static constexpr size_t kRefusal = kLongCall + sizeof(CallLine);
  static constexpr size_t kMembers = kRefusal + sizeof(RefusalLine);
  static constexpr size_t kBarriers = kMembers + 2 * sizeof(MemberTable);

  struct Offsets {
    uint32_t lanes;
    size_t waiting;
    size_t waiters;
    size_t pair_waiter;
    size_t message_waiter;
    size_t pairs;
    size_t scratch;
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
  MailboxShape mailboxes_{};
  Offsets at_{};
};

// A signal pad. It begins with a word for each channel and source, which the source writes. Lines
// of their own follow, with the owner's waiter byte and a bell for each source.
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
  int size_;
  int channels_;
};
}  // namespace symm::host
