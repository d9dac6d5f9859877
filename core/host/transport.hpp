// The host back end's half of a group: control segments of all ranks, and what is done with them.
#pragma once

#include <vector>
#include "core/backend/backend.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/host/call_sync.hpp"
#include "core/host/operand_exchange.hpp"

namespace symm::host {

class HostTransport final : public Transport {
 public:
  HostTransport(TransportContext context, const PlanValues& values);

  OutgoingMessage share() const override { return controls_.share(); }
  void connect(int peer, Message message, const PeerIdentity&) override { controls_.connect(peer, std::move(message)); }

  void barrier(std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) override;
  void send_signal(const MemoryView& memory, int rank, int channel, SignalOp op, uint64_t value, void* stream) override;
  void take_signal(const MemoryView& memory, int rank, int channel, uint64_t timeout_ms, void* stream) override;
  SignalState look_at_signal(const MemoryView& memory, int rank, int channel) override;
  void wait_signals(const MemoryView& memory, std::span<const SignalWait> waits, bool any, uint64_t timeout_ms, size_t* out_index,
                    uint64_t* out_seen, void* stream) override;
  void write_value(const MemoryView& memory, int rank, size_t offset, uint64_t value, size_t bytes, void* stream) override;
  void wait_value(const MemoryView& memory, const void* word, size_t bytes, Compare compare, uint64_t value, uint64_t timeout_ms,
                  void* stream) override;
  void copy(void* to, const void* from, size_t bytes, void* stream) override;
  void fill32(void* to, uint32_t value, size_t count, void* stream) override;
  void collective(const CollectiveCall& call) override;
  PlanReport plan(const CollectiveCall& call) override;
  void stream_wait(void* stream, void* after) override;
  bool stream_done(void* stream) override;
  uint64_t scratch_bytes() const noexcept override { return 2 * controls_.scratch_half(); }
 private:
  int missing(std::span<const int32_t> ranks, int channel);
  void barrier_of_all(int channel, uint64_t timeout_ms);
  void barrier_of_some(std::span<const int32_t> ranks, int channel, uint64_t timeout_ms);
  static void require_no_stream(void* stream);
  void await(const MemoryView& memory, const Condition& condition, std::span<const int> ranks, LazyDeadline& deadline,
             const std::function<std::string()>& what);
  // The turn is this call's.
  void plain_collective(const CollectiveCall& call);
  void scaled_collective(const CollectiveCall& call);
  PlanReport plan_plain(const CollectiveCall& call) const;
  const PreparedCall& prepare(const CollectiveCall& call);
  void require_possible(const CollectiveCall& call) const;

  Controls controls_;
  const TransportContext& context_;  // of controls_
  Facts facts_;

  TimedMutex collective_mutex_;
  PreparedCall prepared_;  // the last one
  CallCounters calls_;
  std::vector<std::byte*> scratch_;
  std::vector<std::byte> wide_;  // of scaled calls: their operands, wide; empty before the first
  OperandExchange operands_;

  struct BarrierState {
    TimedMutex turn;
    uint32_t count = 0;
    std::vector<uint32_t> sent, taken;  // by peer, for barriers of subsets
  };
  std::vector<BarrierState> barriers_;
};

}  // namespace symm::host
