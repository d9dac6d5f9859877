// Locates this rank's operands in symmetric memory, announces them, and turns what the others
// announce into addresses here. No offset of a peer is used unchecked.
#include "core/host/operand_exchange.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "core/backend/backend.hpp"
#include "kernels/collective.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/host/execution.hpp"
#include "kernels/host/plan.hpp"

namespace symm::host {
namespace {
// The operands that a zero-copy algorithm touches on other ranks.
struct Touched {
  explicit Touched(const CollectiveCall& call) noexcept
      : remote(remote_operands(call.collective)), root(call.root) {}

  bool send_of(int rank) const {
    return remote.send && (!remote.root_only || remote.recv || rank == root);
  }

  bool recv_of(int rank) const { return remote.recv && (!remote.root_only || rank == root); }

  RemoteOperands remote;
  int root;
};

OperandBytes bytes_of(const CollectiveCall& call, int size) noexcept {
  if (call.pieces != nullptr) return {call.pieces->send_bytes, call.pieces->recv_bytes};
  return operand_bytes(call.collective, call.unit(), size);
}

struct Located {
  std::shared_ptr<const MemoryView> memory;
  size_t offset = 0;
};

Located locate(const MemoryDirectory* directory, const void* address, size_t bytes) {
  Located located;
  if (address != nullptr) located.memory = directory->containing(address, bytes, &located.offset);
  return located;
}
}  // namespace

OperandExchange::OperandExchange(const MemoryDirectory* directory, int rank, int size)
    : directory_(directory),
      rank_(rank),
      size_(size),
      announced_(static_cast<size_t>(size)),
      peer_send_(static_cast<size_t>(size)),
      peer_recv_(static_cast<size_t>(size)),
      peer_room_(static_cast<size_t>(size)) {}

bool OperandExchange::symmetric_here(const CollectiveCall& call) const {
  const OperandBytes bytes = bytes_of(call, size_);
  const Touched touches(call);
  if (touches.send_of(rank_) && bytes.send != 0 &&
      !locate(directory_, call.send, bytes.send).memory) {
    return false;
  }
  if (touches.recv_of(rank_) && !locate(directory_, call.recv, bytes.recv).memory) return false;
  return !touches.remote.out_of_place || call.send != call.recv;
}

OperandExchange::Key OperandExchange::key_of(const CollectiveCall& call) const noexcept {
  const OperandBytes bytes = bytes_of(call, size_);
  return {directory_->generation(), call.collective, call.root, bytes.send, bytes.recv, call.send,
      call.recv};
}

// Holds the remembered memories for this call. False if one is gone: its user released it after
// the directory was asked for its generation.
bool OperandExchange::hold_remembered() {
  for (const auto& memory : memories_) {
    held_.push_back(memory.lock());
    if (held_.back() == nullptr) return false;
  }
  return true;
}

// This rank's operands; the memories that they lie in are held.
OperandExchange::Operands OperandExchange::operands_of(const CollectiveCall& call, const Key& key) {
  Located send = locate(directory_, call.send, key.send_bytes);
  Located recv = locate(directory_, call.recv, key.recv_bytes);
  const Operands mine{send.memory ? send.memory->id : 0, send.offset,
      recv.memory ? recv.memory->id : 0, recv.offset, call.send == call.recv ? 1U : 0U};
  held_.clear();
  if (send.memory != recv.memory && recv.memory) held_.push_back(std::move(recv.memory));
  if (send.memory) held_.push_back(std::move(send.memory));
  return mine;
}

// Turns what all ranks announced into addresses here. Returns -1, or the rank whose operand lies in
// a memory that is not known here.
int OperandExchange::resolve(const CollectiveCall& call, const Key& key) {
  const auto address = [&](uint64_t id, uint64_t offset, size_t bytes, int peer, std::byte*& to,
                           size_t* room = nullptr) {
    to = nullptr;
    if (room != nullptr) *room = 0;
    if (id == 0) return true;
    // Nearly always all ranks use the same memory, or the same one for each operand.
    auto known = std::find_if(
        held_.begin(), held_.end(), [id](const auto& memory) { return memory->id == id; });
    if (known == held_.end()) {
      std::shared_ptr<const MemoryView> memory = directory_->numbered(id);
      // If this rank took an unknown memory for private memory, it would settle on another
      // algorithm than its peers.
      if (memory == nullptr) return false;
      known = held_.insert(held_.end(), std::move(memory));
    }
    const MemoryView& memory = **known;
    if (offset > memory.bytes || bytes > memory.bytes - offset) return false;
    to = memory.blocks[static_cast<size_t>(peer)] + offset;
    if (room != nullptr) *room = memory.bytes - offset;
    return true;
  };

  const Touched touches(call);
  all_symmetric_ = true;
  for (int peer = 0; peer < size_; ++peer) {
    const auto index = static_cast<size_t>(peer);
    const Operands& theirs = announced_[index];
    std::byte* send = nullptr;
    // The reader of a piece checks its length against peer_room().
    const bool in_pieces = call.pieces != nullptr;
    if (!address(theirs.send_memory, theirs.send_offset, in_pieces ? 0 : key.send_bytes, peer, send,
            &peer_room_[index])) {
      return peer;
    }
    if (!in_pieces &&
        !address(theirs.recv_memory, theirs.recv_offset, key.recv_bytes, peer, peer_recv_[index])) {
      return peer;
    }
    peer_send_[index] = in_pieces && !is_readable(call, theirs) ? nullptr : send;
    if (touches.send_of(peer) && send == nullptr) all_symmetric_ = false;
    if (touches.recv_of(peer) && peer_recv_[index] == nullptr) all_symmetric_ = false;
    if (touches.remote.out_of_place && theirs.in_place != 0) all_symmetric_ = false;
  }

  return -1;
}

bool OperandExchange::is_readable(const CollectiveCall& call, const Operands& operands) noexcept {
  return operands.send_memory != 0 &&
         (operands.in_place == 0 || !remote_operands(call.collective).out_of_place);
}

// Determines where this rank's operands lie. True if the remembered addresses still hold.
bool OperandExchange::locate_own(const CollectiveCall& call, const Key& key) {
  const bool remembered = key == key_ && hold_remembered();
  key_.generation = 0;  // nothing is remembered until this call has succeeded
  if (!remembered) announced_[static_cast<size_t>(rank_)] = operands_of(call, key);
  return remembered;
}

// Enters the call with this rank's operands, and awaits those of the others. Returns what resolve()
// returns; -1 if all ranks announced what is remembered.
int OperandExchange::enter_and_resolve(
    const CollectiveCall& call, const Key& key, Sync& sync, bool remembered) {
  sync.enter(&announced_[static_cast<size_t>(rank_)], sizeof(Operands));
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    Operands theirs{};
    std::memcpy(&theirs, sync.await_entry(peer), sizeof theirs);
    Operands& before = announced_[static_cast<size_t>(peer)];
    if (theirs == before) continue;
    before = theirs;
    remembered = false;
  }

  if (!remembered) {
    if (const int unknown = resolve(call, key); unknown >= 0) return unknown;
    memories_.assign(held_.begin(), held_.end());
  }

  key_ = key;
  return -1;
}
}  // namespace symm::host
