// The messages by which ranks on different machines put, get, signal and meet, and where in a
// rank's memory they may do so.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/layouts.hpp"
#include "core/base/text.hpp"
#include "core/bootstrap/store.hpp"
#include "core/engine/link.hpp"
#include "core/engine/message_engine.hpp"
#include "core/mesh/mesh.hpp"
#include "kernels/compare.hpp"
#include "kernels/types.hpp"

namespace symm::multinode {
// The kinds of messages, and their uses of the fields of Head. A message that writes or reads
// memory names it by `memory` and `offset`, unless its comment says otherwise.
enum Kind : uint16_t {
  // Parts of a collective: one with a place in a round, and one with a place of its own.
  kRound = 1,
  kStep,
  // The source has come to a barrier `value` times on `channel`, the last time for
  // the set `call`.
  kArrival,
  // A signal: `value` by the operation `call`.
  kSignal,
  // `value` goes into a word of `channel` bytes.
  kValue,
  // The payload is put.
  kPut,
  // `value` bytes are to be sent back, in replies that have the number `call`.
  kFetch,
  // The payload is what was fetched. `value`: 1, or 0 if the memory was released.
  kFetchReply,
  // Asks where the target is, in the lane `offset` before others, and whether it has come to
  // the barrier `value` of all on `channel`. With `memory`, the reply tells of the call with
  // that number, counted from 1, among those that the collective is made of. Between GPUs a
  // query has a number, `call`, and nothing else.
  kQuery,
  // The source is in the collective number `call`, which is the signature `value` with `memory`
  // elements. `offset` has, in 16 bits each, the rank that it waits for, plus 1, the lane, and for
  // a wait for a message how often it has looked and what the call is about. `channel` has bits:
  // kHasCome, kSeveralThreads, kRefused. Between GPUs a reply has the number of its query, `call`,
  // and nothing else.
  kQueryReply,
  // Between GPUs only: `call` copies of `value`, of `channel` bytes each.
  kFill,
  // Between GPUs only: the source has taken `value` bytes of what was put or fetched.
  kCredit,
  // A word is changed by `value`. `channel` is the bytes of the word, and the operation times
  // kAtomicOp. The payload, if there is one, is the value with which the word is compared. If
  // `call` is not 0, it is the number of the reply that is wanted.
  kAtomic,
  // `value` is the former value of the word. `channel`: 1, or 0 if the memory was released.
  kAtomicReply,
  // Rows that are put. The payload begins with `value` RemoteRows, and has their bytes behind them.
  kPutRows,
  // The payload is `value` RemoteRows, whose bytes, `offset` of them, are to be sent back, in a
  // reply that has the number `call`.
  kFetchRows,
  // Slot `value` of the source's mailbox (core/multinode/remote_mailbox.hpp), of the kind `call`:
  // the payload is the message that it holds, which goes to `offset` of the data area, or an
  // announced message has `memory` bytes.
  kSlot,
  // The word `offset` of the source's mailbox has the value `value`.
  kSlotWord,
  // The payload is the part at `offset` of the announced message that the target wants.
  kSlotPart,
};

constexpr uint16_t kAtomicOp = 16;       // the unit of the operation of kAtomic
constexpr uint16_t kHasCome = 1;         // the source has come to the barrier that was asked for
constexpr uint16_t kRefused = 4;         // the source has refused the arguments of its last call
constexpr uint16_t kRefusal = 8;         // the unit in which refusals are counted
constexpr uint16_t kSeveralThreads = 2;  // several threads of the source have been seen to wait

// The head of kAtomic for a change, without the memory and the number of the reply.
inline engine::Head head_of(const AtomicChange& change, size_t offset) {
  return {.kind = kAtomic,
      .channel = static_cast<uint16_t>(change.bytes + static_cast<size_t>(change.op) * kAtomicOp),
      .offset = offset,
      .value = change.value};
}

// The payload of kAtomic, which only a comparison has.
inline std::span<const std::byte> payload_of(const AtomicChange& change) {
  if (change.op != AtomicOp::compare_swap) return {};
  return std::as_bytes(std::span(&change.compare, 1));
}

// The change that kAtomic asks for; nothing if there is no such change of a word.
inline std::optional<AtomicChange> change_of(const engine::Head& head, uint64_t compare) {
  const AtomicChange change{.op = static_cast<AtomicOp>(head.channel / kAtomicOp),
      .bytes = static_cast<size_t>(head.channel % kAtomicOp),
      .value = head.value,
      .compare = compare};
  const bool is_word = (change.bytes == 4 || change.bytes == 8) && head.offset % change.bytes == 0;
  return is_word && is_valid(change.op) ? std::optional(change) : std::nullopt;
}

// The factor by which sums are wider before they are rounded.
constexpr size_t widening(DType dtype) {
  return is_small_float(dtype) ? sizeof(float) / size_of(dtype) : 1;
}

// The bytes of a message that puts or fetches, at most.
constexpr size_t kMessage = size_t{1} << 20;
constexpr size_t kMostAddressBytes = 2048;

// What a rank tells the others of its message engine, in the bytes that follow its back end's
// share. All zero: the process has no engine.
struct EngineShare {
  char name[64] = "";
  Stamp remote = stamp_of(layouts::remote);
  uint32_t address_bytes = 0;
  std::byte address[kMostAddressBytes] = {};

  static EngineShare of_process(const std::vector<std::string>& addresses) {
    engine::open_engine(addresses);
    EngineShare share;
    const std::string engine = engine::engine_name();
    const Bytes at = engine::engine_address();
    if (at.size() > kMostAddressBytes) {
      throw Error(Status::unsupported, format("%s: its address has %zu bytes, and %zu fit",
                                           engine.c_str(), at.size(), kMostAddressBytes));
    }

    write_text(share.name, engine);
    share.address_bytes = static_cast<uint32_t>(at.size());
    std::copy(at.begin(), at.end(), share.address);
    return share;
  }

  std::span<const std::byte> engine_address() const {
    return {address, std::min<size_t>(address_bytes, kMostAddressBytes)};
  }
};

// Takes a struct off the end of a message. Its first member, `name`, is a text, which
// is terminated here, because another process wrote it.
template <class Share>
Share take_last(Message& message) {
  Share share;
  std::memcpy(&share, message.body.data() + message.body.size() - sizeof share, sizeof share);
  message.body.resize(message.body.size() - sizeof share);
  share.name[sizeof share.name - 1] = '\0';
  return share;
}

// The memories of a group, by their numbers.
class MemoryViews {
 public:
  void add(const std::shared_ptr<const MemoryView>& memory) {
    const std::lock_guard lock(mutex_);
    views_[memory->id] = memory;
  }

  void remove(uint64_t id) noexcept {
    const std::lock_guard lock(mutex_);
    views_.erase(id);
  }

  // Null if the memory was released here, or, with `refused`, if the range does not lie in it.
  std::shared_ptr<const MemoryView> find(
      uint64_t id, uint64_t offset, uint64_t bytes, bool* refused) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = views_.find(id);
    std::shared_ptr<const MemoryView> view = found == views_.end() ? nullptr : found->second.lock();
    *refused = view && (offset > view->bytes || bytes > view->bytes - offset);
    return *refused ? nullptr : view;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, std::weak_ptr<const MemoryView>> views_;
};

// A transport whose calls on a memory reach ranks of other machines, too. `Local` does
// the calls on ranks of this machine.
template <class Local>
class WithRemoteRanks : public Local {
 public:
  using Local::Local;

  void send_signal(const MemoryView& memory, int rank, int channel, SignalOp op, uint64_t value,
      uint64_t timeout_ms, void* stream) override {
    if (is_mapped(memory, rank)) {
      Local::send_signal(memory, rank, channel, op, value, timeout_ms, stream);
      return;
    }
    const engine::Head head{.kind = kSignal,
        .channel = static_cast<uint16_t>(channel),
        .value = value,
        .call = static_cast<uint64_t>(op)};
    to_remote("signal", memory, rank, head, {}, timeout_ms, stream);
  }

  void write_value(const MemoryView& memory, int rank, size_t offset, uint64_t value, size_t bytes,
      uint64_t timeout_ms, void* stream) override {
    if (is_mapped(memory, rank)) {
      Local::write_value(memory, rank, offset, value, bytes, timeout_ms, stream);
      return;
    }
    const engine::Head head{
        .kind = kValue, .channel = static_cast<uint16_t>(bytes), .offset = offset, .value = value};
    to_remote("write_value", memory, rank, head, {}, timeout_ms, stream);
  }

  void put(const MemoryView& memory, int rank, size_t offset, const void* from, size_t bytes,
      uint64_t timeout_ms, void* stream) override {
    if (is_mapped(memory, rank)) {
      Local::put(memory, rank, offset, from, bytes, timeout_ms, stream);
      return;
    }
    const std::span payload(static_cast<const std::byte*>(from), bytes);
    to_remote("put", memory, rank, {.kind = kPut, .offset = offset}, payload, timeout_ms, stream);
  }

  void fill(const MemoryView& memory, int rank, size_t offset, const Copies& copies,
      uint64_t timeout_ms, void* stream) override {
    if (is_mapped(memory, rank)) {
      Local::fill(memory, rank, offset, copies, timeout_ms, stream);
      return;
    }
    if (copies.count == 0) return;
    const engine::Head head{.kind = kFill,
        .channel = static_cast<uint16_t>(copies.bytes),
        .offset = offset,
        .value = copies.value,
        .call = copies.count};
    to_remote("fill", memory, rank, head, {}, timeout_ms, stream);
  }

 private:
  static bool is_mapped(const MemoryView& memory, int rank) {
    return memory.blocks[static_cast<size_t>(rank)] != nullptr;
  }
  // Sends a message for `memory`, which `head` does not name yet; `call` names the
  // call in errors.
  virtual void to_remote(const char* call, const MemoryView& memory, int rank, engine::Head head,
      std::span<const std::byte> payload, uint64_t timeout_ms, void* stream) = 0;
};

// Sends a message to a rank of another machine. False: the rank has left, and nothing was sent.
// Throws Error: why the group was revoked, or a sentence that begins with `call`.
bool send_unless_left(engine::Endpoint& endpoint, const TransportContext& context, int rank,
    const engine::Head& head, std::span<const std::byte> payload, LazyDeadline& deadline,
    const char* call);
}  // namespace symm::multinode
