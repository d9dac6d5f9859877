// What ranks on different machines tell each other by the
// engine, and where in a rank's memory they may do something.
#pragma once

#include <cstring>
#include <unordered_map>

#include "core/backend/backend.hpp"
#include "core/engine/message_engine.hpp"

namespace symm::multinode {
// the first two of a collective: with its place in a round, or with a place of its own
enum Kind : uint16_t {
  kRound = 1,
  kStep,
  kArrival,  // at a barrier: `value` times on `channel`, last for the set `call`
  kSignal,   // `value` by the operation `call`
  kValue,    // `value` into a word of `channel` bytes
  kPut,
  kFetch,   // `value` bytes, for the answer `call`
  kAnswer,  // `value`: 1, or 0 if the memory is not there any more
  kAsk,     // where the rank is, and whether it has come to the barrier `value` of all on `channel`
  // in `call`, which is `value` with `memory` elements,
  // waits for `offset` - 1, and has come if `channel`
  kTold,
  // Of GPUs, where kAsk and kTold have a number, `call`, and nothing else.
  kFill,   // `call` words of `value`
  kTaken,  // `value` bytes of what was put or fetched
};

// How many times as many bytes sums have before they are rounded.
constexpr size_t wider(DType dtype) {
  return is_small_float(dtype) ? sizeof(float) / size_of(dtype) : 1;
}

constexpr size_t kMessage = size_t{1} << 20;  // at most, of what is put or fetched
constexpr size_t kMostAddress = 2048;

// Behind what a back end shares; empty where there is no engine.
struct EngineShare {
  char name[64] = "";
  uint32_t address_bytes = 0;
  std::byte address[kMostAddress] = {};

  static EngineShare of_process() {
    EngineShare mine;
    const std::string engine = engine::engine_name();
    const Bytes at = engine::engine_address();
    if (at.size() > kMostAddress) {
      throw Error(Status::unsupported, format("%s: its address has %zu bytes, and %zu fit",
                                           engine.c_str(), at.size(), kMostAddress));
    }
    write_text(mine.name, engine);
    mine.address_bytes = static_cast<uint32_t>(at.size());
    std::copy(at.begin(), at.end(), mine.address);
    return mine;
  }
  std::span<const std::byte> where() const {
    return {address, std::min<size_t>(address_bytes, kMostAddress)};
  }
};

template <class Part>
Part take_last(Message& message) {  // whose first member is a text
  Part part;
  std::memcpy(&part, message.body.data() + message.body.size() - sizeof part, sizeof part);
  message.body.resize(message.body.size() - sizeof part);
  part.name[sizeof part.name - 1] = '\0';
  return part;
}

// Those of a group, by number.
class Memories {
 public:
  void add(const std::shared_ptr<const MemoryView>& memory) {
    const std::lock_guard lock(mutex_);
    views_[memory->id] = memory;
  }
  void remove(uint64_t id) noexcept {
    const std::lock_guard lock(mutex_);
    views_.erase(id);
  }
  // Null if it was released here, or, `refused`, if the range does not lie in it.
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

// A back end's transport, whose calls on a memory reach ranks of other machines, too:
// what `Local` does for those of this one.
template <class Local>
class WithRemoteRanks : public Local {
 public:
  using Local::Local;
  void send_signal(const MemoryView& memory, int rank, int channel, SignalOp op, uint64_t value,
      void* stream) override {
    if (is_mapped(memory, rank)) {
      return Local::send_signal(memory, rank, channel, op, value, stream);
    }
    to_remote("signal", memory, rank,
        {.kind = kSignal,
            .channel = static_cast<uint16_t>(channel),
            .value = value,
            .call = static_cast<uint64_t>(op)},
        {}, stream);
  }
  void write_value(const MemoryView& memory, int rank, size_t offset, uint64_t value, size_t bytes,
      void* stream) override {
    if (is_mapped(memory, rank)) {
      return Local::write_value(memory, rank, offset, value, bytes, stream);
    }
    const auto size = static_cast<uint16_t>(bytes);
    to_remote("write_value", memory, rank,
        {.kind = kValue, .channel = size, .offset = offset, .value = value}, {}, stream);
  }
  void put(const MemoryView& memory, int rank, size_t offset, const void* from, size_t bytes,
      void* stream) override {
    if (is_mapped(memory, rank)) return Local::put(memory, rank, offset, from, bytes, stream);
    to_remote("put", memory, rank, {.kind = kPut, .offset = offset},
        {static_cast<const std::byte*>(from), bytes}, stream);
  }
  void fill(const MemoryView& memory, int rank, size_t offset, uint32_t value, size_t count,
      void* stream) override {
    if (is_mapped(memory, rank)) return Local::fill(memory, rank, offset, value, count, stream);
    if (count != 0) {
      to_remote("fill32", memory, rank,
          {.kind = kFill, .offset = offset, .value = value, .call = count}, {}, stream);
    }
  }

 private:
  static bool is_mapped(const MemoryView& memory, int rank) {
    return memory.blocks[static_cast<size_t>(rank)] != nullptr;
  }
  // `head` lacks the memory.
  virtual void to_remote(const char* what, const MemoryView& memory, int rank, engine::Head head,
      std::span<const std::byte> payload, void* stream) = 0;
};

// False: the rank has left, and nothing went. Throws Error:
// why the group was revoked, or a sentence about `what`.
bool send(engine::Endpoint& endpoint, const TransportContext& context, int rank,
    const engine::Head& head, std::span<const std::byte> payload, LazyDeadline& deadline,
    const char* what);
}  // namespace symm::multinode
