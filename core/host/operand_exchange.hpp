// For zero-copy collectives, ranks tell each other where their operands lie.
//
// Zero copy is possible if every operand that another rank touches is symmetric memory. All ranks
// see the same facts and so conclude the same. An offset from a peer is checked against the
// memory's true size before it becomes an address.
//
// Programs repeat their calls, and looking up two addresses costs more than a small collective. So
// the addresses of the last call are kept. They hold as long as all ranks announce the same
// operands again and no memory has joined or left the group. The memories are remembered without
// being held: a memory that its user releases is unmapped at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/backend/backend.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/host/execution.hpp"
#include "kernels/types.hpp"

namespace symm::host {
class OperandExchange {
 public:
  OperandExchange(const MemoryDirectory* directory, int rank, int size);

  // Whether this rank's operands permit zero copy. From any thread.
  bool symmetric_here(const CollectiveCall& call) const;

  // Calls `before_entry(can peers read my send operand?)`, enters the call, and awaits the entries
  // of all ranks. Returns -1, or the rank whose operand lies in a memory that is not known here.
  // After -1 the accessors below are valid until the next exchange; the memories stay mapped for
  // the life of a Hold that was made before.
  template <class BeforeEntry>
  int exchange(const CollectiveCall& call, Sync& sync, BeforeEntry&& before_entry) {
    const Key key = key_of(call);
    const bool remembered = locate_own(call, key);
    before_entry(is_readable(call, announced_[static_cast<size_t>(rank_)]));
    return enter_and_resolve(call, key, sync, remembered);
  }
  bool all_symmetric() const noexcept { return all_symmetric_; }
  // The addresses at which each rank's operands are mapped here; null for private memory.
  const std::byte* const* peer_send() const noexcept { return peer_send_.data(); }
  std::byte* const* peer_recv() const noexcept { return peer_recv_.data(); }
  // Bytes from peer_send() to the end of its memory.
  const size_t* peer_room() const noexcept { return peer_room_.data(); }

  class Hold {
   public:
    explicit Hold(OperandExchange& exchange) noexcept : exchange_(exchange) {}
    ~Hold() { exchange_.held_.clear(); }
    Hold(Hold&&) = delete;

   private:
    OperandExchange& exchange_;
  };

 private:
  // The operands that a rank announces when it enters a call. Memory 0 is private memory.
  struct Operands {
    uint64_t send_memory;
    uint64_t send_offset;
    uint64_t recv_memory;
    uint64_t recv_offset;
    uint64_t in_place;
    bool operator==(const Operands&) const = default;
  };
  static_assert(sizeof(Operands) <= kEntryPayload);

  // The local facts that the result of an exchange depends on.
  struct Key {
    uint64_t generation = 0;  // generation of the directory; 0: nothing is remembered
    Collective collective{};
    int root = 0;
    size_t send_bytes = 0;
    size_t recv_bytes = 0;
    const void* send = nullptr;
    const void* recv = nullptr;
    bool operator==(const Key&) const = default;
  };

  Key key_of(const CollectiveCall& call) const noexcept;
  static bool is_readable(const CollectiveCall& call, const Operands& operands) noexcept;
  bool hold_remembered();
  bool locate_own(const CollectiveCall& call, const Key& key);
  int enter_and_resolve(const CollectiveCall& call, const Key& key, Sync& sync, bool remembered);
  Operands operands_of(const CollectiveCall& call, const Key& key);
  int resolve(const CollectiveCall& call, const Key& key);

  const MemoryDirectory* directory_;
  const int rank_;
  const int size_;

  Key key_;
  std::vector<Operands> announced_;  // by rank, as announced for the last call
  bool all_symmetric_ = false;
  std::vector<const std::byte*> peer_send_;
  std::vector<std::byte*> peer_recv_;
  std::vector<size_t> peer_room_;
  std::vector<std::weak_ptr<const MemoryView>> memories_;  // the memories of all addresses
  std::vector<std::shared_ptr<const MemoryView>> held_;    // the memories that a call keeps mapped
};
}  // namespace symm::host
