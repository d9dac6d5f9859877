// The interfaces by which core/multinode knows a device. In a group of devices on several
// machines each rank has a transport for the ranks of its machine (Transport), and
// engines carry bytes between machines. A back end for devices implements these
// interfaces beside its transport.
//
// All functions throw Error if a call of the device's driver fails, unless they say otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/collective_call.hpp"
#include "kernels/compare.hpp"
#include "kernels/types.hpp"

namespace symm {
// An address by which a device reaches memory, its own or pinned memory of the host.
using DeviceAddress = uint64_t;

// The bytes that a thread of a kernel moves at a time. Parts of operands in scratch begin at
// multiples of it.
inline constexpr size_t kPackBytes = 16;

// The bytes of a call's record, by which ranks find out that their calls differ.
inline constexpr size_t kCallRecordBytes = 2 * sizeof(uint64_t);

// A stream of symm's own, with pinned memory of the host that the device reads and
// writes, too. For one thread, which has the device current (run_attached()). When the
// object goes, work that uses the memory may still be under way, also on streams of the
// caller: the memory and the stream stay until that work has ended.
class PinnedStream {
 public:
  virtual ~PinnedStream() = default;

  // The first byte of the pinned memory, for the host and for the device.
  virtual std::byte* host() const noexcept = 0;
  virtual DeviceAddress address() const noexcept = 0;

  // Calls `work` with the device current on this thread; if that fails, `work` is
  // called all the same, and what it issues fails.
  virtual void run_attached(const std::function<void()>& work) const = 0;

  // Each call issues work on the stream, behind what was issued before. One of `to` and
  // `from` may be pinned memory.
  virtual void copy(const void* to, const void* from, size_t bytes) = 0;
  virtual void fill(const void* to, const Copies& copies) = 0;
  virtual void store64(const void* to, uint64_t value) = 0;
  // Changes a word of the device's own memory in one step. `fetched`, which may be null, receives
  // what the word was, and is pinned memory.
  virtual void change(const void* word, const AtomicChange& change, DeviceAddress fetched) = 0;
  // Whether changes of words in memory of the host are single steps, too.
  virtual bool changes_memory_of_host() const noexcept = 0;

  // Whether all issued work has ended. Work counts as ended if the device has failed,
  // and check() throws then.
  virtual bool has_ended() noexcept = 0;
  virtual void check() const = 0;
};

// The work on a stream between two points.
class StreamInterval {
 public:
  enum class State { waits, runs, over };

  virtual ~StreamInterval() = default;
  // May be called on any thread. Work counts as over if the device has failed.
  virtual State state() const = 0;
};

// A call's turn to issue a collective: while the object lives, no other call of the
// group issues one, nor does a call of a group that shares the scratch. The device is
// current on the thread.
class IssueTurn {
 public:
  virtual ~IssueTurn() = default;
  // Work issued on the stream from here on runs after the collectives issued before.
  virtual void begin() = 0;
  // Collectives issued later run after what was issued since begin(). Returns the
  // interval in which that runs; null in a capture, because nobody reports its replays.
  virtual std::shared_ptr<const StreamInterval> end() = 0;
};

// One step of a reduction on this device: operands are combined in the order in which
// they stand. Without operands `to` gets the neutral element.
struct CombineStep {
  std::span<const std::byte* const> operands;
  void* to = nullptr;
  // The bytes of an operand.
  size_t bytes = 0;
  Op op{};
  // Sums that are not rounded, to which the operands are added; null: none.
  const std::byte* before = nullptr;
  // Whether sums are stored as wide as they are added, for another step to go on from.
  bool unrounded = false;
};

// Room for pieces on their way between machines: a slot for each rank.
struct PieceSlots {
  std::byte* slots = nullptr;
  size_t slot_bytes = 0;
  // Used if only the device knows how long pieces are: pieces are staged from this byte
  // on, and a slot begins with a pack that says how long its piece is in all.
  size_t at = 0;
};

// A rank's device in a group on several machines, and the steps of collectives that its back
// end does within the machine. Calls that have a stream issue work on it, and return.
class IntranodeDevice {
 public:
  virtual ~IntranodeDevice() = default;

  // ---- the device

  // A stream of symm's own on the device.
  virtual void* stream() const noexcept = 0;
  // Calls `work` with the device current on this thread. `work` may allocate, even
  // while another stream is being captured.
  virtual void run_attached(const std::function<void()>& work) const = 0;
  // Throws Error(invalid_argument) for a stream whose capture is invalid.
  virtual bool is_captured(void* stream) const = 0;
  // The pinned memory has `bytes` bytes; what they contain is unspecified.
  virtual std::unique_ptr<PinnedStream> open_pinned_stream(size_t bytes) const = 0;

  // ---- the order of streams

  // Throws Error(timeout), which names `what`, if another thread keeps the turn for so long.
  virtual std::unique_ptr<IssueTurn> take_turn(
      const char* what, uint64_t timeout_ms, void* stream) = 0;
  // Words of 8 bytes that the device reaches. The wait has no deadline, and ends when
  // the word is no less than `value`, or when the group is revoked.
  virtual void issue_store(DeviceAddress word, uint64_t value, void* stream) = 0;
  virtual void issue_wait(DeviceAddress word, uint64_t value, void* stream) = 0;

  // ---- scratch

  // The stages of a rank of this machine, which one collective uses at a time.
  virtual std::span<std::byte> stages_of(int rank) const noexcept = 0;
  // The bytes that take as long between machines as it takes the engine to begin.
  virtual size_t hop_bytes() const noexcept = 0;

  // ---- steps of collectives, in a call's turn

  // A barrier of ranks of this machine, on a channel that no caller has.
  virtual void issue_barrier(std::span<const int32_t> ranks, uint64_t timeout_ms, void* stream) = 0;
  virtual void combine(const CollectiveCall& call, const CombineStep& step) = 0;
  // `records` has room for the records of all ranks' calls, by rank, each of kCallRecordBytes.
  // record_call() stores this rank's, which says that the call has `count` elements.
  // compare_calls() compares all records with it, and fails the group if one differs.
  virtual void record_call(const CollectiveCall& call, size_t count, std::byte* records) = 0;
  virtual void compare_calls(const CollectiveCall& call, size_t count, std::byte* records) = 0;
  // Move the pieces of the call: from send into slots, and from slots into recv.
  virtual void pack_pieces(const CollectiveCall& call, const PieceSlots& slots) = 0;
  virtual void unpack_pieces(const CollectiveCall& call, const PieceSlots& slots) = 0;

  // ---- composed calls: with a factor, or with RMSNorm

  // Returns the first of the plain calls that a call is made of, which is as large as any of
  // them; of a plain call, the call itself.
  virtual CollectiveCall plain_call(const CollectiveCall& call) const = 0;
  // The beginning of a plan's reason for a call with a factor; else "".
  virtual std::string reason_prefix(const CollectiveCall& call) const = 0;
  // Issues a composed call: the plain ones by `issue_plain`, and the kernels between them.
  virtual void issue_parts(const CollectiveCall& call,
      const std::function<void(const CollectiveCall&)>& issue_plain) = 0;
};
}  // namespace symm
