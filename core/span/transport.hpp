// The transport of a group that spans machines: the host back end's on each of them, and messages of an engine between them.
//
// All that a rank waits for lies in memory of its own machine: its pads, and its control segment, of which it uses the words of
// barriers of pairs and, as landing slots, the scratch. Ranks of its machine write there themselves; for ranks of others the
// courier does, on whatever thread of this process makes progress. So a wait is the host's wait, and nobody sees the difference.
#pragma once

#include <map>
#include <unordered_map>
#include "core/engine/courier.hpp"
#include "core/host/transport.hpp"

namespace symm::span {
// Throws Error(unavailable) if there is no engine.
std::unique_ptr<Transport> open(TransportContext context);

class SpanTransport final : private host::Far, private engine::Receiver, public host::HostTransport {
 public:
  SpanTransport(TransportContext context, const PlanValues& values);

  OutgoingMessage share() const override;
  void connect(int peer, Message message, const PeerIdentity& identity) override;
  std::string engine() const override { return engine_; }
  void let_go() noexcept override;

  void send_signal(const MemoryView& memory, int rank, int channel, SignalOp op, uint64_t value, void* stream) override;
  void write_value(const MemoryView& memory, int rank, size_t offset, uint64_t value, size_t bytes, void* stream) override;
  void put(const MemoryView& memory, int rank, size_t offset, const void* from, size_t bytes, void* stream) override;
  void get(const MemoryView& memory, int rank, size_t offset, void* to, size_t bytes, void* stream) override;
  void fill(const MemoryView& memory, int rank, size_t offset, uint32_t value, size_t count, void* stream) override;
 private:
  static constexpr uint16_t kRound = 1;  // among the kinds of messages that of a collective
  // What the first bytes of a slot say of the message that lies behind them.
  struct Slot;
  struct Leg;
  struct Fetch;

  void arrive(int peer, int channel, uint32_t count, uint32_t set, uint64_t timeout_ms) override;
  void plain_collective(const CollectiveCall& call) override;
  PlanReport plan_plain(const CollectiveCall& call) const override;
  std::string why_impossible(const CollectiveCall& call) const override;

  bool in_slices(const CallSignature& call) const;
  size_t room() const;  // of a slot
  int rounds_channel() const { return context_.channels; }
  Slot* slot_of(const host::Control& owner, uint32_t round, int source) const;
  void run(const CollectiveCall& call, const Leg& leg, LazyDeadline& deadline);
  void send_round(const CollectiveCall& call, const Leg& leg, size_t index, LazyDeadline& deadline);
  void await_round(const CollectiveCall& call, LazyDeadline& deadline);
  std::byte* place_of_round(int from, const engine::Head& head) noexcept;  // null: refused
  void arrived_of_round(int from, const engine::Head& head) noexcept;
  void note_round(const host::Control& owner, int source, uint32_t round) const;

  bool maps(int rank) const { return context_.machines.together(rank, context_.rank); }
  void send(int rank, const engine::Head& head, std::span<const std::byte> payload, uint64_t timeout_ms, const char* what);
  std::shared_ptr<const MemoryView> numbered(uint64_t id, uint64_t offset, uint64_t bytes, bool* refused) noexcept;
  void answer(int from, const engine::Head& head) noexcept;

  bool progress() noexcept override { return post_->progress(); }
  bool has_left(int rank) noexcept override;
  void memory_added(const std::shared_ptr<const MemoryView>& memory) override;
  void memory_removed(const MemoryView& memory) noexcept override;
  std::byte* place(int from, const engine::Head& head) noexcept override;
  void arrived(int from, const engine::Head& head) noexcept override;
  void lost(int peer, const std::string& how) noexcept override;

  std::string engine_;
  Bytes address_;
  uint32_t calls_ = 0;
  uint32_t round_ = 0;  // of all calls
  std::mutex mutex_;    // never held while the courier is called
  std::unordered_map<uint64_t, std::weak_ptr<const MemoryView>> memories_;
  std::unordered_map<uint64_t, Fetch*> fetches_;
  uint64_t next_fetch_ = 0;
  struct Loss {
    std::string how;
    std::optional<Deadline> until;  // when the mesh has had its time to say why
  };
  std::vector<Loss> losses_;                                                       // by rank
  std::map<std::pair<int, uint64_t>, std::shared_ptr<const MemoryView>> landing_;  // under way into a block; the courier's
  std::unique_ptr<std::byte[]> nowhere_;  // where messages for memory that was released go
  std::unique_ptr<engine::Post> post_;    // first to go
};
}  // namespace symm::span
