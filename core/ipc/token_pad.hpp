// The pad of a token that was made with channels. It has the words by which those who import the
// token signal its maker, and the fences by which its maker keeps late puts off the memory.
//
// Definitions.
//   Epoch: the number that a writer gives to a put, such as that of the request that it serves.
//   Late: a put is late if its epoch is lower than the fence of a part of the memory that it
//     stores to.
//
// Invariants.
//   I1. A writer stores the epoch of its put in its own word `under_way`, then looks at the
//       fences, and stores nothing to the memory if the put is late. It takes the epoch back
//       after its last store, and after the signal of the put.
//   I2. The owner raises the fences, then looks at the words `under_way`. Fences only grow.
//   I3. All these accesses are in one order (seq_cst).
//
// Steps. After the owner has raised a fence and then seen each writer without a lower epoch under
// way, no store and no signal of a late put lands any more.
//   1. The owner sees a writer's word before or after the writer stored the epoch of the put (I3).
//   2. If before, the writer looks at the fences after the owner raised them (I1, I2). The put is
//      late, and the writer stores nothing.
//   3. If after, the owner saw the epoch under way and went on looking until the writer took it
//      back, which is after the last store of the put (I1).
//   4. A writer that was killed takes nothing back. On the host it stores nothing either once the
//      kernel has confirmed its death, and only then does the owner stop looking at its word.
// tests/models/fences.pml tries every order.
//
// Each word has one writer, but those of the channels, which any importer changes atomically. What
// others write here is compared, and is never an index or a length.
#pragma once

#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "core/backend/backend.hpp"
#include "core/backend/segment.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/futex.hpp"
#include "core/base/revocation.hpp"
#include "core/base/spin_policy.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/base/wait.hpp"
#include "kernels/compare.hpp"
#include "kernels/piece_list.hpp"

namespace symm::ipc {
inline constexpr uint32_t kMostPadChannels = 4096;
inline constexpr uint32_t kMostPadWriters = 64;
inline constexpr uint64_t kNoPut = UINT64_MAX;  // an epoch later than all others

struct PadShape {
  uint32_t channels = 0;
  uint64_t bytes = 0;        // of the token's piece
  uint64_t fence_bytes = 0;  // of a part of the piece that has a fence of its own

  bool is_possible() const noexcept {
    return channels != 0 && channels <= kMostPadChannels && bytes != 0 && fence_bytes != 0;
  }
  uint64_t fences() const noexcept { return (bytes - 1) / fence_bytes + 1; }
};

// Throws Error(invalid_argument) for a channel that the pad does not have.
void require_channel(const PadShape& shape, int channel, const char* argument);

// The words of a pad in shared memory.
class TokenPad {
 public:
  static size_t bytes(const PadShape& shape) noexcept {
    return sizeof(Header) + (shape.channels + shape.fences()) * sizeof(uint64_t);
  }
  TokenPad(std::shared_ptr<host::Segment> segment, const PadShape& shape) noexcept
      : segment_(std::move(segment)), shape_(shape) {}

  const PadShape& shape() const noexcept { return shape_; }
  const std::shared_ptr<host::Segment>& segment() const noexcept { return segment_; }
  // The threads of the owner that sleep until a word changes, and the bell that wakes them.
  Waiter& sleepers() const noexcept { return header().sleepers; }
  Word& bell() const noexcept { return header().bell; }
  std::atomic<uint64_t>& under_way(uint32_t writer) const noexcept {
    return header().writers[writer].under_way;
  }
  std::atomic<uint64_t>& word(uint32_t channel) const noexcept { return words()[channel]; }
  std::atomic<uint64_t>& fence(uint64_t part) const noexcept {
    return words()[shape_.channels + part];
  }

  struct Header {
    struct alignas(64) Writer {
      std::atomic<uint64_t> under_way;  // the epoch of its put, or kNoPut
    };
    alignas(64) Waiter sleepers;
    alignas(64) Word bell;
    Writer writers[kMostPadWriters];
  };

 private:
  Header& header() const noexcept { return *reinterpret_cast<Header*>(segment_->data()); }
  std::atomic<uint64_t>* words() const noexcept {
    return reinterpret_cast<std::atomic<uint64_t>*>(segment_->data() + sizeof(Header));
  }

  std::shared_ptr<host::Segment> segment_;
  PadShape shape_;
};

// The pad at the maker of its token. Writers come and go with the exporter's lock held; waits hold
// no lock of the exporter.
class OwnedPad {
 public:
  // The pad of a piece that begins at byte `offset` of its block.
  OwnedPad(uint64_t offset, const PadShape& shape);

  const TokenPad& pad() const noexcept { return pad_; }
  bool overlaps(uint64_t offset, uint64_t bytes) const noexcept {
    return offset < offset_ + pad_.shape().bytes && offset_ < offset + bytes;
  }

  // A number for a process that imports the token. Throws Error(unavailable) if there is none left.
  uint32_t admit(int64_t pid, std::string name);
  // The writer has let go of the token.
  void leave(uint32_t writer) noexcept;
  // The writer is dead. `surely`: it can store no more.
  void lose(uint32_t writer, bool surely) noexcept;
  // The token has ended: nobody waits for its words any more. Its writers stay, and its fences.
  void end() noexcept;
  // Whether the token has ended, and nobody is left who could put.
  bool is_over() const noexcept;

  // Waits until the word compares so, and returns it. Throws what symm_ipc_wait_value() says.
  uint64_t wait_value(uint32_t channel, Compare compare, uint64_t value, uint64_t timeout_ms);

  // Throws Error(invalid_argument) if the range of the block has only some bytes of a part.
  void require_whole_parts(uint64_t offset, uint64_t bytes) const;
  void raise(uint64_t offset, uint64_t bytes, uint64_t epoch) noexcept;
  // Waits for the puts of lower epochs that are under way. Throws Error, which names a writer.
  void await_late_puts(uint64_t epoch, Deadline deadline);

 private:
  // One that has imported the token.
  struct Writer {
    int64_t pid;  // 0: not visible here
    std::string name;
    bool may_be_dead = false;
  };
  struct Range {
    uint64_t first;
    uint64_t end;
  };
  Range within(uint64_t offset, uint64_t bytes) const noexcept;
  bool is_hopeless() const;
  Failure hopeless(const std::string& what) const;
  Failure late(const std::string& what, uint64_t timeout_ms) const;
  // The number of a writer with a put of a lower epoch; none: nothing late is under way.
  std::optional<uint32_t> first_late(uint64_t epoch) const;
  WaitEnd await(const Predicate& holds, const Predicate& unreachable, const char* what,
      LazyDeadline& deadline);
  void ring_bell() noexcept { ring(pad_.bell(), pad_.sleepers()); }

  const uint64_t offset_;
  const TokenPad pad_;
  const Revocation never_{0};  // a wait is for the writers of this pad, which no group revokes
  const SpinPolicy spin_;
  mutable std::mutex mutex_;
  std::optional<Writer> writers_[kMostPadWriters];
  std::optional<Writer> lost_;  // the last writer that died, until another comes
  bool has_ended_ = false;
};

// An importer as it is counted on a pad: it leaves when the last copy of its lease is gone.
class PadWriter {
 public:
  PadWriter(std::shared_ptr<OwnedPad> pad, int64_t pid, std::string name)
      : pad_(std::move(pad)), number_(pad_->admit(pid, std::move(name))) {}
  ~PadWriter() {
    if (!is_lost_) pad_->leave(number_);
  }
  PadWriter(PadWriter&&) = delete;

  uint32_t number() const noexcept { return number_; }
  const TokenPad& pad() const noexcept { return pad_->pad(); }
  void lose(bool surely) noexcept {
    is_lost_ = true;
    pad_->lose(number_, surely);
  }

 private:
  const std::shared_ptr<OwnedPad> pad_;
  const uint32_t number_;
  bool is_lost_ = false;
};

// The pad at a process that has imported its token.
class ImportedPad {
 public:
  ImportedPad(TokenPad pad, uint32_t writer) noexcept : pad_(std::move(pad)), writer_(writer) {}

  const PadShape& shape() const noexcept { return pad_.shape(); }
  void send_signal(const OutgoingSignal& signal) noexcept;
  // Calls `copy` and sends the signal, if there is one, unless the put is late: then it throws
  // Error(aborted). `offset`: from where the pieces count in the token's piece.
  void put(const PieceList& list, uint64_t offset, uint64_t epoch, uint64_t timeout_ms,
      const std::function<void()>& copy, const std::optional<OutgoingSignal>& signal);

 private:
  void require_not_late(const PieceList& list, uint64_t offset, uint64_t epoch) const;

  const TokenPad pad_;
  const uint32_t writer_;
  TimedMutex turn_;  // of puts, which have one word `under_way`
};
}  // namespace symm::ipc
