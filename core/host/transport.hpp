// SPDX-License-Identifier: Apache-2.0
//
// The host back end's half of a group: control segments of all ranks, and what is done with them.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/plan_table.hpp"
#include "core/base/timed_mutex.hpp"
#include "core/host/control.hpp"
#include "core/host/operand_exchange.hpp"

namespace symm::host {

class CallSync;

// What follows from a call's arguments alone, operands apart. Programs repeat their calls, so the last one's is kept: a small
// collective takes no longer than making this.
struct PreparedCall {
  PlanInput input{{.root = -1}, {}};  // which no call has: nothing prepared yet
  Plan plan;
  uint32_t hash = 0;
};

class HostTransport final : public Transport {
 public:
  HostTransport(TransportContext context, const PlanValues& values);

  OutgoingMessage share() const override;
  void connect(int peer, Message message, const PeerIdentity& identity) override;

  void barrier(std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) override;
  void put_signal(const MemoryView& memory, int rank, int channel, void* stream) override;
  void wait_signal(const MemoryView& memory, int rank, int channel, uint32_t taken, uint64_t timeout_ms, void* stream) override;
  void copy(void* to, const void* from, size_t bytes, void* stream) override;
  void fill32(void* to, uint32_t value, size_t count, void* stream) override;
  void write32(void* to, uint32_t value, void* stream) override;
  void collective(const CollectiveCall& call) override;
  PlanReport plan(const CollectiveCall& call) override;

 private:
  friend class CallSync;
  void barrier_of_all(int channel, uint64_t timeout_ms);
  void barrier_of_some(std::span<const int32_t> ranks, int channel, uint64_t timeout_ms);
  // Wait, or revoke the group and throw: `what` says what was awaited.
  void await(Word& word, uint32_t target, Waiter& waiter, int peer, LazyDeadline& deadline, const char* what);
  [[noreturn]] void fail(Failure failure);
  Fencing fencing_of_group() const noexcept;
  static void require_no_stream(void* stream);
  void give_up() noexcept;
  int culprit(int peer) const noexcept;
  void require_nobody_gave_up(LazyDeadline& deadline, const char* what);
  const PreparedCall& prepare(const CollectiveCall& call);
  void require_possible(const PlanInput& input, const CollectiveCall& call) const;

  TransportContext context_;
  PlanValues values_;
  Processors processors_;  // that any rank known so far may use
  SpinPolicy spin_;
  bool registered_;  // all ranks known so far are, for asymmetric fences
  Fencing fencing_;
  Facts facts_;
  std::vector<Control> controls_;  // by group rank
  Control& mine_;

  TimedMutex collective_mutex_;
  PreparedCall prepared_;           // the last one
  uint32_t op_ = 0;                 // calls entered
  uint32_t step_ = 0;               // arrivals announced in all calls
  std::vector<uint32_t> known_op_;  // last call that each peer is known to have entered
  std::vector<std::byte*> scratch_;
  OperandExchange operands_;

  struct BarrierState {
    TimedMutex turn;
    uint32_t count = 0;
    std::vector<uint32_t> sent, taken;  // by peer, for barriers of subsets
  };
  std::vector<BarrierState> barriers_;
};

}  // namespace symm::host
