// The transport of a group that spans machines: the host back end's on each of them,
// and messages of an engine between them.
//
// All that a rank waits for lies in memory of its own machine: its pads, and its
// control segment, of which it uses the words of barriers of pairs and, as landing
// slots, the scratch. Ranks of its machine write there themselves; for ranks of others
// the message engine does, on whatever thread of this process makes progress. So a wait is the
// host's wait, and nobody sees the difference.
#pragma once

#include <map>

#include "core/host/transport.hpp"
#include "core/multinode/messages.hpp"

namespace symm::multinode {
// Throws Error(unavailable) if there is no engine.
std::unique_ptr<Transport> open(Backend& backend, TransportContext context);

// Where one algorithm gives way to the next: values of the plan table.
struct Thresholds {
  size_t gather, slices, round;  // bytes
  int direct, tell;
};

class MultinodeTransport final : private host::RemoteRanks,
                                 private engine::Receiver,
                                 public WithRemoteRanks<host::HostTransport> {
 public:
  MultinodeTransport(TransportContext context, const PlanValues& values);

  OutgoingMessage share() const override;
  void connect(int peer, Message message, const PeerIdentity& identity) override;
  std::string engine() const override { return engine_; }
  void let_go() noexcept override;

  void get(const MemoryView& memory, int rank, size_t offset, void* to, size_t bytes,
      void* stream) override;

 private:
  void to_remote(const char* what, const MemoryView& memory, int rank, engine::Head head,
      std::span<const std::byte> payload, void* stream) override;
  struct Announcement;
  struct Slot;
  struct ChainHop;
  struct Fetch;

  void arrive(int peer, int channel, uint32_t count, uint32_t set, uint64_t timeout_ms) override;
  bool has_come(int peer, int channel, uint32_t count) override;
  void await_everybody(int channel, uint32_t count, LazyDeadline& deadline) override;
  void settle_puts(int channel, LazyDeadline& deadline) override;
  Algorithm plain_collective(const CollectiveCall& call) override;
  PlanReport plan_plain(const CollectiveCall& call) const override;
  size_t wide_bytes() const override;
  std::string why_impossible(const CollectiveCall& call) const override;

  Algorithm algorithm_of(const CallSignature& call) const;
  std::string why_no_chain(DType dtype) const;
  size_t step_area() const;  // of half of the scratch, where what was said ends
  size_t room() const;       // of a slot
  int rounds_channel() const { return context_.channels; }
  Announcement& announcement_of(const host::Control& owner, uint32_t call, int source) const;
  Slot& slot_of(const host::Control& owner, uint32_t call, uint32_t round, int source) const;
  // null: refused
  std::byte* place_of(
      const host::Control& owner, int source, const engine::Head& head) const noexcept;
  void note(const host::Control& owner, int source, const engine::Head& head) const noexcept;
  void enter(const CollectiveCall& call);
  std::pair<uint64_t, uint64_t> said_by_me(uint32_t call) const;  // signature and count
  void pass(const CollectiveCall& call, int peer, engine::Head head,
      std::span<const std::byte> payload, LazyDeadline* deadline);
  void pass_step(
      const CollectiveCall& call, int peer, size_t at, std::span<const std::byte> payload);
  void await(const CollectiveCall& call, int peer, LazyDeadline& deadline);
  [[noreturn]] void fail_mismatch(int peer, LazyDeadline& deadline);
  void run(const CollectiveCall& call, const ChainHop& hop, LazyDeadline& deadline);
  // All ranks' operands, in their order.
  void combine(const CollectiveCall& call, const std::byte* const* sources, std::byte* to,
      size_t bytes) const;
  void send_round(
      const CollectiveCall& call, const ChainHop& hop, size_t index, LazyDeadline& deadline);
  void exchange(const CollectiveCall& call, bool slices, LazyDeadline& deadline);
  size_t chain_depth(int machine) const;
  size_t chain_room(DType dtype) const;
  size_t chain_chunk(const CallSignature& call) const;
  void allreduce_chain(const CollectiveCall& call, LazyDeadline& deadline);
  std::string why_not_hierarchical(DType dtype) const;
  size_t hierarchical_chunk(DType dtype, size_t bytes) const;  // of what has so many
  void allreduce_hierarchical(const CollectiveCall& call, LazyDeadline& deadline);
  size_t bruck_block() const;
  void allreduce_bruck(const CollectiveCall& call, LazyDeadline& deadline);

  bool maps(int rank) const { return context_.machines.together(rank, context_.rank); }
  void send(int rank, const engine::Head& head, std::span<const std::byte> payload,
      LazyDeadline& deadline, const char* what);
  void send(int rank, const engine::Head& head, std::span<const std::byte> payload,
      uint64_t timeout_ms, const char* what) {
    LazyDeadline deadline(timeout_ms);
    send(rank, head, payload, deadline, what);
  }
  void answer(int from, const engine::Head& head) noexcept;

  bool progress() noexcept override { return endpoint_->progress(); }
  void polls(Polling what) noexcept override { endpoint_->polls(what); }
  bool has_left(int rank) noexcept override;
  int blocked_on(int rank) noexcept override;
  void memory_added(const std::shared_ptr<const MemoryView>& memory) override {
    memories_.add(memory);
  }
  void memory_removed(const MemoryView& memory) noexcept override { memories_.remove(memory.id); }
  std::byte* place(int from, const engine::Head& head) noexcept override;
  void arrived(int from, const engine::Head& head) noexcept override;
  void lost(int peer, const std::string& how) noexcept override;
  uint32_t ask(int rank, int channel = 0, uint32_t count = 0) noexcept;
  std::optional<engine::Head> where_is(int rank, int channel = 0, uint32_t count = 0) noexcept;
  void tell(int to, const engine::Head& question) noexcept;

  std::string engine_;
  EngineShare mine_;
  const Thresholds thresholds_;
  const int local_size_;
  std::vector<int32_t> firsts_;  // ranks of the machines
  bool in_line_;                 // each machine's ranks are consecutive, and equally many
  uint32_t calls_ = 0;
  uint32_t round_ = 0;           // of all calls
  uint32_t exchange_ = 0;        // in rounds of bruck
  std::vector<uint32_t> taken_;  // messages of collectives, by source
  std::mutex asking_;
  std::mutex mutex_;  // never held while the message engine is called
  MemoryViews memories_;
  std::unordered_map<uint64_t, Fetch*> fetches_;
  uint64_t next_fetch_ = 0;
  struct PeerLoss {
    std::string how;
    std::optional<Deadline> until;  // when the mesh has had its time to say why
  };
  std::vector<PeerLoss> losses_;  // by rank
  struct NotifyState {
    Word times{0};
    Waiter waiter{0};
    uint32_t asked = 0;
    engine::Head last;  // with the mutex
    // what barriers of all are to come after, and so much of it has arrived
    std::atomic<uint32_t> sent, settled{};
  };
  std::vector<NotifyState> told_;  // by rank
  // under way into a block; the message engine's
  std::map<std::pair<int, uint64_t>, std::shared_ptr<const MemoryView>> landing_;
  std::unique_ptr<std::byte[]> nowhere_;        // where messages for memory that was released go
  std::unique_ptr<engine::Endpoint> endpoint_;  // first to go
};
}  // namespace symm::multinode
