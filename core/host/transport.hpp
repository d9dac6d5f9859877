// The transport of the host back end: barriers, signals and collectives on the control segments
// of all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/plan_table.hpp"
#include "core/base/deadline.hpp"
#include "core/base/futex.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/base/wait.hpp"
#include "core/host/batch.hpp"
#include "core/host/call_sync.hpp"
#include "core/host/control.hpp"
#include "core/host/controls.hpp"
#include "core/host/messages.hpp"
#include "core/host/operand_exchange.hpp"
#include "core/host/standstill.hpp"
#include "core/mesh/mesh.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/compare.hpp"
#include "kernels/host/plan.hpp"
#include "kernels/piece_list.hpp"
#include "kernels/rmsnorm.hpp"
#include "kernels/types.hpp"

namespace symm::host {
// core/multinode extends this class for groups on several machines: it passes `remote` and
// overrides the virtual functions.
class HostTransport : public Transport {
 public:
  HostTransport(TransportContext context, const PlanValues& values, RemoteRanks* remote = nullptr);

  OutgoingMessage share() const override { return controls_.share(); }
  void connect(int peer, Message message, const PeerIdentity& identity) override {
    controls_.connect(peer, std::move(message));
    messages_.connect(peer, identity.same_process);
  }
  // See Controls::require_same_layout().
  void require_same_layout(int peer, const Message& message) const {
    controls_.require_same_layout(peer, message);
  }

  void barrier(
      std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) override;
  void send_signal(const MemoryView& memory, int rank, int channel, SignalOp op, uint64_t value,
      uint64_t timeout_ms, void* stream) override;
  void tell_signal(
      const MemoryView& memory, int rank, int channel, uint64_t value) noexcept override;
  void take_signal(
      const MemoryView& memory, int rank, int channel, uint64_t timeout_ms, void* stream) override;
  SignalState look_at_signal(const MemoryView& memory, int rank, int channel) override;
  void wait_signals(const MemoryView& memory, std::span<const SignalWait> waits, bool any,
      uint64_t timeout_ms, size_t* out_index, uint64_t* out_seen, void* stream) override;
  void write_value(const MemoryView& memory, int rank, size_t offset, uint64_t value, size_t bytes,
      uint64_t timeout_ms, void* stream) override;
  void wait_value(const MemoryView& memory, const void* word, size_t bytes, Compare compare,
      uint64_t value, uint64_t timeout_ms, void* stream) override;
  void change_value(const MemoryView& memory, int rank, size_t offset, const AtomicChange& change,
      void* fetched, uint64_t timeout_ms, void* stream) override;
  uint64_t read_value(const MemoryView& memory, int rank, size_t offset, size_t bytes,
      uint64_t timeout_ms) override;
  void pass_messages(std::span<MessageSide> sides, uint64_t timeout_ms, void* stream) override;
  std::unique_ptr<PostedMessages> post_messages(std::span<MessageSide> sides) override {
    return messages_.post(sides);
  }
  void copy(void* to, const void* from, size_t bytes, void* stream) override;
  void put(const MemoryView& memory, int rank, size_t offset, const void* from, size_t bytes,
      uint64_t timeout_ms, void* stream) override;
  void put_pieces(const MemoryView& memory, int rank, size_t offset, const void* from,
      const PieceCopy& pieces, uint64_t timeout_ms, void* stream) override;
  void get_pieces(const MemoryView& memory, int rank, size_t offset, void* to,
      const PieceCopy& pieces, uint64_t timeout_ms, void* stream) override;
  void fill_here(void* to, const Copies& copies, void* stream) override;
  void collective(const CollectiveCall& call) override;
  void batch(std::span<CollectiveCall> calls) override;
  PlanReport plan(const CollectiveCall& call) override;
  void stream_wait(void* stream, void* after) override;
  bool stream_done(void* stream) override;
  uint64_t scratch_bytes() const noexcept override { return 2 * controls_.scratch_half(); }
  std::unique_ptr<MessageWait> await_message(MessageCall call, int peer, uint16_t about) override;
  void note_refusal(const std::string& what) noexcept override { controls_.note_refusal(what); }
  void note_several_threads() noexcept override { controls_.note_several_threads(); }

 protected:
  void copy_pieces(void* to, const void* from, const PieceCopy& pieces, void* stream) const;
  static void require_no_stream(void* stream);
  static WaitingCall barrier_on(int channel) noexcept {
    return {"barrier", lane::kBarriers + static_cast<uint32_t>(channel)};
  }
  // Store, in the name of rank `source`, its `count`th arrival for the owner of a segment, a signal
  // in the owner's pad, or a value in the owner's block.
  void note_arrival(
      const Control& owner, int channel, int source, uint32_t count, uint32_t set) const;
  static void note_signal(
      const MemoryView& memory, int owner, int channel, int source, SignalOp op, uint64_t value);
  static void note_value(
      const MemoryView& memory, int owner, int source, size_t offset, uint64_t value, size_t bytes);
  // Changes a word of the owner's block in the name of rank `source`. Returns what the word was.
  static uint64_t note_change(
      const MemoryView& memory, int owner, int source, size_t offset, const AtomicChange& change);
  // Tells `peer` that this rank has entered the barrier.
  virtual void arrive(int peer, int channel, uint32_t count, uint32_t set, uint64_t) {
    note_arrival(controls_[peer], channel, context_.rank, count, set);
  }
  // Whether `peer` has entered `count` barriers of all ranks. A barrier of the ranks that
  // `everybody_` lists is one of a set, even though these are all ranks.
  virtual bool has_come(int peer, int channel, uint32_t count) {
    return reached(controls_[peer].barrier(channel, count), count);
  }
  virtual void await_everybody(int channel, uint32_t count, LazyDeadline& deadline);
  // Called before this rank enters a barrier: returns when all that it has put has arrived.
  virtual void settle_puts(int, LazyDeadline&) {}
  // A barrier of a set: tells the ranks of `to` that this rank is here, and waits until the ranks
  // of `from` have told this rank so. `set` identifies the set.
  void meet(int channel, uint32_t set, std::span<const int32_t> to, std::span<const int32_t> from,
      LazyDeadline& deadline);
  void require_no_barrier_of_all(
      int channel, int peer, const Word& word, uint32_t target, LazyDeadline& deadline);
  [[noreturn]] void fail_sets(int channel, int peer);
  // The set of an arrival of `source` that this rank has not awaited; 0: there is none.
  uint32_t untaken_set(int channel, int source);
  // All ranks, in a group whose barriers of all go by messages between ranks; else empty.
  std::vector<int32_t> everybody_;
  // Makes a call without a factor or a norm, under collective_mutex_. Returns the algorithm used.
  virtual Algorithm plain_collective(const CollectiveCall& call);
  virtual PlanReport plan_plain(const CollectiveCall& call) const;
  // Bytes of the buffer in which scaled calls widen their operands; equal on all ranks. The size is
  // that of half a cache of the second level, so that the buffer stays there.
  virtual size_t wide_bytes() const { return size_t{1} << 20; }
  // Bytes of the same buffer for a call with a wire.
  virtual size_t wire_bytes() const { return size_t{1} << 20; }
  virtual std::string why_impossible(const CollectiveCall& call) const;
  void require_possible(const CollectiveCall& call) const;

  Controls controls_;
  const TransportContext& context_;  // that of controls_
  Messages messages_;
  Facts facts_;
  PreparedCall prepared_;  // the last call
  // The calls that the call at hand is made of, if it is one of merged calls.
  std::span<const Member> members_of(const CollectiveCall& call) const noexcept {
    return call.batch.merged != 0 ? merged_.members() : std::span<const Member>();
  }

 private:
  int missing(std::span<const int32_t> ranks, int channel, bool all);
  void barrier_of_all(int channel, LazyDeadline& deadline);
  void await(const MemoryView& memory, const Condition& condition, std::span<const int> ranks,
      LazyDeadline& deadline, const std::function<std::string()>& what);
  Algorithm collective_in_parts(const CollectiveCall& call);
  Algorithm collective_by_wire(const CollectiveCall& call);
  Algorithm collective_in_chunks(const CollectiveCall& call);
  void await_chunk(
      const CollectiveCall& call, uint32_t value, size_t index, LazyDeadline& deadline);
  // Makes calls of a batch as one. Under collective_mutex_, as is collective_in_turn().
  void merged(std::span<const CollectiveCall* const> calls, uint64_t timeout_ms);
  void collective_in_turn(const CollectiveCall& call);
  void prepare(const CollectiveCall& call);

  TimedMutex collective_mutex_;
  CallCounters calls_;
  std::vector<std::byte*> scratch_;
  // The widened operands of scaled calls, the sums of calls with RMSNorm, or codes. Empty before
  // the first such call.
  std::vector<std::byte> wide_;
  MergedOperands merged_;
  std::unique_ptr<NormScratch> norm_;
  OperandExchange operands_;
  Plan settled_;  // the plan of a call whose form is settled after all have entered it

  struct BarrierState {
    TimedMutex turn;
    uint32_t count = 0;
    std::vector<uint32_t> sent;   // arrivals told to each peer, for barriers of subsets
    std::vector<uint32_t> taken;  // arrivals of each peer that were awaited
  };
  std::vector<BarrierState> barriers_;
};
}  // namespace symm::host
