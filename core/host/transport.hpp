// The host back end's half of a group: control
// segments of all ranks, and what is done with them.
#pragma once

#include "core/base/timed_mutex.hpp"
#include "core/host/call_sync.hpp"
#include "core/host/operand_exchange.hpp"

namespace symm::host {
// Of a group on several machines core/multinode has the rest: `remote`, and what is virtual here.
class HostTransport : public Transport {
 public:
  HostTransport(TransportContext context, const PlanValues& values, RemoteRanks* remote = nullptr);

  OutgoingMessage share() const override { return controls_.share(); }
  void connect(int peer, Message message, const PeerIdentity&) override {
    controls_.connect(peer, std::move(message));
  }

  void barrier(
      std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) override;
  void send_signal(const MemoryView& memory, int rank, int channel, SignalOp op, uint64_t value,
      void* stream) override;
  void take_signal(
      const MemoryView& memory, int rank, int channel, uint64_t timeout_ms, void* stream) override;
  SignalState look_at_signal(const MemoryView& memory, int rank, int channel) override;
  void wait_signals(const MemoryView& memory, std::span<const SignalWait> waits, bool any,
      uint64_t timeout_ms, size_t* out_index, uint64_t* out_seen, void* stream) override;
  void write_value(const MemoryView& memory, int rank, size_t offset, uint64_t value, size_t bytes,
      void* stream) override;
  void wait_value(const MemoryView& memory, const void* word, size_t bytes, Compare compare,
      uint64_t value, uint64_t timeout_ms, void* stream) override;
  void copy(void* to, const void* from, size_t bytes, void* stream) override;
  void fill32(void* to, uint32_t value, size_t count, void* stream) override;
  void collective(const CollectiveCall& call) override;
  PlanReport plan(const CollectiveCall& call) override;
  void stream_wait(void* stream, void* after) override;
  bool stream_done(void* stream) override;
  uint64_t scratch_bytes() const noexcept override { return 2 * controls_.scratch_half(); }

 protected:
  static void require_no_stream(void* stream);
  // `source` has come for the `count`th time for the owner
  // of a segment, or stores a word of a pad for its owner.
  void note_arrival(
      const Control& owner, int channel, int source, uint32_t count, uint32_t set) const;
  static void note_signal(
      const MemoryView& memory, int owner, int channel, int source, SignalOp op, uint64_t value);
  static void note_value(
      const MemoryView& memory, int owner, int source, size_t offset, uint64_t value, size_t bytes);
  // This rank has come for `peer`.
  virtual void arrive(int peer, int channel, uint32_t count, uint32_t set, uint64_t) {
    note_arrival(controls_[peer], channel, context_.rank, count, set);
  }
  // As many barriers of all as `count`. What `everybody_`
  // has is a barrier of a set also where it is all.
  virtual bool has_come(int peer, int channel, uint32_t count) {
    return reached(controls_[peer].barrier(channel, count), count);
  }
  virtual void await_everybody(int channel, uint32_t count, LazyDeadline& deadline);
  // Before this rank comes: what it has sent has arrived.
  virtual void settle_puts(int, LazyDeadline&) {}
  // In a barrier of `set`: this rank comes for those of `to`, and those of `from` for it.
  void meet(int channel, uint32_t set, std::span<const int32_t> to, std::span<const int32_t> from,
      LazyDeadline& deadline);
  void require_no_barrier_of_all(
      int channel, int peer, const Word& word, uint32_t target, LazyDeadline& deadline);
  [[noreturn]] void fail_sets(int channel, int peer);
  // of who has come for this rank and was not awaited; 0: nobody
  uint32_t untaken_set(int channel, int source);
  // of a group whose ranks tell each other; else empty
  std::vector<int32_t> everybody_;
  // The turn is this call's. Returns by which algorithm it was made.
  virtual Algorithm plain_collective(const CollectiveCall& call);
  virtual PlanReport plan_plain(const CollectiveCall& call) const;
  // What scaled calls are made wide in; equal on all
  // ranks. This stays in a cache of the second level.
  virtual size_t wide_bytes() const { return size_t{1} << 20; }
  virtual std::string why_impossible(const CollectiveCall& call) const;
  void require_possible(const CollectiveCall& call) const;

  Controls controls_;
  const TransportContext& context_;  // of controls_
  Facts facts_;
  PreparedCall prepared_;  // the last one
 private:
  int missing(std::span<const int32_t> ranks, int channel, bool all);
  void barrier_of_all(int channel, LazyDeadline& deadline);
  void await(const MemoryView& memory, const Condition& condition, std::span<const int> ranks,
      LazyDeadline& deadline, const std::function<std::string()>& what);
  Algorithm collective_in_parts(const CollectiveCall& call);
  void prepare(const CollectiveCall& call);

  TimedMutex collective_mutex_;
  CallCounters calls_;
  std::vector<std::byte*> scratch_;
  // of scaled calls: their operands, wide; of those with RMSNorm: sums. Empty before the first
  std::vector<std::byte> wide_;
  std::unique_ptr<NormScratch> norm_;
  OperandExchange operands_;
  Plan settled_;  // of a call that is entered first

  struct BarrierState {
    TimedMutex turn;
    uint32_t count = 0;
    std::vector<uint32_t> sent, taken;  // by peer, for barriers of subsets
  };
  std::vector<BarrierState> barriers_;
};
}  // namespace symm::host
