// A buffer is one rank's allocation. A memory is what the ranks of a group make of their
// buffers in a rendezvous: every rank's block, mapped here.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/piece_checks.hpp"
#include "core/base/fd.hpp"
#include "core/group/group.hpp"
#include "core/group/stragglers.hpp"
#include "kernels/compare.hpp"
#include "kernels/piece_list.hpp"

namespace symm {
class Memory;
struct Moving;  // moving.hpp

class Buffer {
 public:
  struct Found {
    std::shared_ptr<Buffer> buffer;
    size_t offset = 0;
  };
  // The buffer of this process that contains an address; null if there is none.
  static Found find(const void* address);
  static std::shared_ptr<Buffer> allocate(
      Group& group, size_t bytes, Placement placement = {}, std::string name = "");
  static std::shared_ptr<Buffer> adopt(
      Group& group, const void* pointer, size_t bytes, std::string name = "");
  static std::shared_ptr<Buffer> adopt(
      Group& group, int fd, uint64_t offset, size_t bytes, std::string name = "");

  Buffer(std::shared_ptr<Block> block, size_t bytes, BackendKind kind, int device, std::string name)
      : block_(std::move(block)),
        bytes_(bytes),
        kind_(kind),
        device_(device),
        name_(std::move(name)) {}
  ~Buffer();
  Buffer(Buffer&&) = delete;
  std::byte* data() const noexcept { return block_->data(); }
  size_t bytes() const noexcept { return bytes_; }
  const std::shared_ptr<Block>& block() const noexcept { return block_; }
  BackendKind kind() const noexcept { return kind_; }
  Fd export_dmabuf(size_t offset, size_t bytes) const;
  int device() const noexcept { return device_; }
  void record_use(void* stream) { block_->note_use(block_->record_use(stream)); }
  const std::string& name() const noexcept { return name_; }
  // The group for which the memory was made; null if the group is gone.
  std::shared_ptr<Group> group() const noexcept { return group_.lock(); }
  // Give the memory back and keep the address, until resume(): core/backend/suspendable.hpp.
  void suspend(bool keep, void* stream);
  void resume(void* stream);
  bool is_suspended() const noexcept { return is_suspended_.load(std::memory_order_relaxed); }
  // Throws Error(invalid_argument) if the buffer is suspended.
  void require_memory() const;
  int numa_node() const noexcept { return numa_node_; }
  bool on_host() const noexcept { return on_host_; }
  bool adopted() const noexcept { return adopted_; }
  void become(const std::shared_ptr<Memory>& memory);
  std::vector<std::shared_ptr<Memory>> memories() const;  // those that live
  // The memory that the buffer has on a group; null if there is none.
  std::shared_ptr<Memory> memory_on(Group& group) const;
  // Tells the groups of this buffer's memories to keep them no longer.
  void forget_memories() noexcept;
  // Throws Error(unavailable) if a process of a group that failed may still write to the buffer,
  // after a little patience for the death of that process to become known.
  void require_no_stragglers(uint64_t patience_ms) const;

 private:
  static std::shared_ptr<Buffer> of_adopted(
      Group& group, std::shared_ptr<Block> block, size_t bytes, std::string name);

  std::shared_ptr<Block> block_;
  size_t bytes_;
  BackendKind kind_;
  int device_;
  std::string name_;
  std::weak_ptr<Group> group_;
  int numa_node_ = Placement::kNearest;
  bool on_host_ = false;
  bool adopted_ = false;
  std::mutex suspending_;
  std::atomic<bool> is_suspended_{false};
  mutable std::mutex memories_mutex_;
  std::vector<std::weak_ptr<Memory>> memories_;
  std::vector<std::shared_ptr<Stragglers>> pasts_;  // those of the groups that it was met on
};

class Memory {
 public:
  // [collective] Exchanges the blocks of `buffer` among the ranks of `group`. A timeout_ms of 0
  // is the group's time-out for creation; channels of 0 are as many as the group has. The call
  // is [local] if the buffer has a memory on the group already.
  static std::shared_ptr<Memory> rendezvous(const std::shared_ptr<Group>& group,
      const std::shared_ptr<Buffer>& buffer, uint64_t tag, uint64_t timeout_ms = 0,
      int channels = 0);
  // [collective] The rendezvous of the C ABI, whose memory the group keeps (Group::keep()).
  static std::shared_ptr<Memory> rendezvous_and_keep(const std::shared_ptr<Group>& group,
      const std::shared_ptr<Buffer>& buffer, uint64_t tag, uint64_t timeout_ms, int channels);
  // A rendezvous that makes its buffer: if that fails on one rank, it fails on all.
  using MakeBuffer = std::function<std::shared_ptr<Buffer>()>;
  static std::shared_ptr<Memory> rendezvous(const std::shared_ptr<Group>& group,
      const MakeBuffer& make, uint64_t tag, uint64_t timeout_ms = 0, int channels = 0);
  // [collective] The memory that a memory of another group becomes on `group`; moving.hpp. Null: a
  // newcomer.
  static std::shared_ptr<Memory> move(const std::shared_ptr<Group>& group,
      const std::shared_ptr<Memory>& from, uint64_t timeout_ms);
  static constexpr uint64_t kMoveTag = 0x6576'6f6d;  // the tag of its rendezvous
  // `place`: the memory whose tables this one goes on with; null: none.
  Memory(std::shared_ptr<Group> group, std::shared_ptr<Buffer> buffer,
      std::shared_ptr<MemoryView> view, const Memory* place = nullptr);
  ~Memory();
  Memory(Memory&&) = delete;

  Group& group() const noexcept { return *group_; }
  const std::shared_ptr<Group>& shared_group() const noexcept { return group_; }
  const Buffer* buffer() const noexcept { return buffer_.get(); }
  const std::shared_ptr<Buffer>& shared_buffer() const noexcept { return buffer_; }
  const MemoryView& view() const noexcept { return *view_; }
  // Throws if the signals of this memory are those of another one, to which it has moved.
  void require_not_moved() const;
  // Ends a move of this memory, whose tables show the blocks and pads of `view` from now on.
  void moved_to(const MemoryView& view) noexcept;
  void require_channel(int channel) const { Group::require_channel(channel, view_->channels); }
  std::byte* pointer(int rank) const;
  std::byte* pad(int rank) const;
  std::byte* multicast() const;  // throws Error(unavailable) with the reason if there is none
  // Tables that the group's device can read.
  void* const* pointer_table() const noexcept;
  void* const* pad_table() const noexcept;
  std::byte* taken_on_device() const;  // throws Error(unsupported) if no device counts signals

  static constexpr size_t kMostWaits = 64;  // in one call
  // A time-out of 0 is the group's. In calls for which no other rank has to act, the time-out
  // bounds the time that a rank on another machine may take.
  void send_signal(
      int rank, int channel, SignalOp op, uint64_t value, void* stream, uint64_t timeout_ms = 0);
  void wait_signal(int rank, int channel, uint64_t timeout_ms, void* stream);  // takes one
  SignalState look_at_signal(int rank, int channel);
  void wait_signal_value(
      const SignalWait& wait, uint64_t timeout_ms, uint64_t* out_seen, void* stream);
  void wait_signals(std::span<const SignalWait> waits, bool any, uint64_t timeout_ms,
      size_t* out_index, void* stream);
  void write_value(
      int rank, size_t offset, uint64_t value, size_t bytes, void* stream, uint64_t timeout_ms = 0);
  void wait_value(size_t offset, size_t bytes, Compare compare, uint64_t value, uint64_t timeout_ms,
      void* stream);
  void put(int rank, size_t offset, const void* source, size_t bytes, void* stream,
      uint64_t timeout_ms = 0);
  void get(int rank, size_t offset, void* destination, size_t bytes, void* stream,
      uint64_t timeout_ms = 0);
  void fill(int rank, size_t offset, const Copies& copies, void* stream, uint64_t timeout_ms = 0);
  // A put, and then a signal, within one time-out.
  void put_signal(int rank, size_t offset, const void* source, size_t bytes,
      const OutgoingSignal& signal, void* stream, uint64_t timeout_ms = 0);
  // This rank's side of a copy of pieces. A size of SIZE_MAX is not known.
  template <class Pointer>
  struct Local {
    Pointer pointer;
    size_t bytes;
  };
  // Checks the pieces of a put to any rank, in a list of `holder`. Returns the bytes to copy.
  size_t check_put(size_t offset, const Local<const void*>& source, const PieceList& list,
      const char* holder = "call.") const;
  // Many pieces, and then a signal to `rank` if there is one, within one time-out.
  void put_pieces(int rank, size_t offset, const Local<const void*>& source, const PieceList& list,
      const std::optional<OutgoingSignal>& signal, void* stream, uint64_t timeout_ms = 0);
  void get_pieces(int rank, size_t offset, const Local<void*>& destination, const PieceList& list,
      const std::optional<OutgoingSignal>& signal, void* stream, uint64_t timeout_ms = 0);
  // `fetched`, which may be null, receives the former value of the word.
  void change_value(int rank, size_t offset, const AtomicChange& change, void* fetched,
      void* stream, uint64_t timeout_ms = 0);
  uint64_t read_value(int rank, size_t offset, size_t bytes, uint64_t timeout_ms = 0);
  void record_use(void* stream);

 private:
  void require_range(int rank, size_t offset, size_t bytes) const;
  void require_word(int rank, size_t offset, size_t bytes) const;
  static void require_multiple(size_t offset, size_t bytes);
  // The time-out of a call that waits only if the rank is on another machine.
  uint64_t reach_timeout(uint64_t timeout_ms) const;
  std::byte* mapped(const std::vector<std::byte*>& places, int rank) const;
  void require_signal(int rank, int channel) const;
  // Throws unless the signal can be sent, before anything is copied for it.
  void require_known_signal(const OutgoingSignal& signal) const;
  // What pieces may touch in a block.
  PieceSide block_from(size_t offset) const;
  // Checks pieces unless the device reads the list, makes copy(pieces, time-out), and then sends
  // the signal if there is one.
  struct PieceSides;
  template <class Copy>
  void with_pieces(int rank, const PieceList& list, const PieceSides& sides,
      const std::optional<OutgoingSignal>& signal, void* stream, uint64_t timeout_ms,
      const Copy& copy);
  // Makes copy(time-out), and then sends the signal if there is one.
  template <class Copy>
  void with_signal(int rank, const std::optional<OutgoingSignal>& signal, void* stream,
      uint64_t timeout_ms, const Copy& copy);
  template <class Wait>
  void counted_wait(const Wait& wait);

  std::shared_ptr<Group> group_;
  std::shared_ptr<Buffer> buffer_;
  std::shared_ptr<MemoryView> view_;
  struct HostTables {
    std::vector<void*> pointers;
    std::vector<void*> pads;
  };
  static std::shared_ptr<HostTables> host_tables_of(const MemoryView& view);
  // Those of the memory that this one comes from, if they stay where they are.
  std::shared_ptr<HostTables> host_tables_;
  DeviceTransport::Tables tables_;
  std::atomic<bool> has_moved_{false};
};
}  // namespace symm
