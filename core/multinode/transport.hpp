// The transport of a group that spans machines: the host back end's on each of them,
// and messages of an engine between them.
//
// Whatever a rank waits for lies in memory of its own machine: in its pads, and in its control
// segment. Of the control segment it uses the words of barriers of pairs, and the scratch as
// landing slots. Ranks of its own machine write there themselves; for ranks of other machines
// the message engine writes there, on whatever thread of this process makes progress. So each
// wait is a wait of the host back end, which need not know where the writer is.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/plan_table.hpp"
#include "core/base/wait.hpp"
#include "core/engine/link.hpp"
#include "core/engine/message_engine.hpp"
#include "core/host/control.hpp"
#include "core/host/controls.hpp"
#include "core/host/message_port.hpp"
#include "core/host/standstill.hpp"
#include "core/host/transport.hpp"
#include "core/mesh/mesh.hpp"
#include "core/multinode/messages.hpp"
#include "core/multinode/packed_pieces.hpp"
#include "core/multinode/remote_mailbox.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/compare.hpp"
#include "kernels/host/pointers.hpp"
#include "kernels/piece_list.hpp"
#include "kernels/types.hpp"

namespace symm::multinode {
// Throws Error(unavailable) if there is no engine.
std::unique_ptr<Transport> open(Backend& backend, TransportContext context);

// Where one algorithm gives way to the next: values of the plan table, in bytes or in machines.
struct Thresholds {
  size_t gather;
  size_t slices;
  size_t round;
  int direct;
  int tell;
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
      uint64_t timeout_ms, void* stream) override;
  void tell_signal(
      const MemoryView& memory, int rank, int channel, uint64_t value) noexcept override;
  void put_pieces(const MemoryView& memory, int rank, size_t offset, const void* from,
      const PieceCopy& pieces, uint64_t timeout_ms, void* stream) override;
  void get_pieces(const MemoryView& memory, int rank, size_t offset, void* to,
      const PieceCopy& pieces, uint64_t timeout_ms, void* stream) override;
  void change_value(const MemoryView& memory, int rank, size_t offset, const AtomicChange& change,
      void* fetched, uint64_t timeout_ms, void* stream) override;
  uint64_t read_value(const MemoryView& memory, int rank, size_t offset, size_t bytes,
      uint64_t timeout_ms) override;
  void pass_messages(std::span<MessageSide> sides, uint64_t timeout_ms, void* stream) override;
  std::unique_ptr<PostedMessages> post_messages(std::span<MessageSide> sides) override;

 private:
  struct Announcement;
  struct Slot;
  struct PieceExchange;
  class Chain;
  class Hierarchical;
  class Bruck;
  struct Fetch;

  bool maps(int rank) const { return context_.machines.together(rank, context_.rank); }
  void to_remote(const char* call, const MemoryView& memory, int rank, engine::Head head,
      std::span<const std::byte> payload, uint64_t timeout_ms, void* stream) override;
  void send_in_parts(const char* call, int rank, engine::Head head,
      std::span<const std::byte> payload, LazyDeadline& deadline);
  void fill_remote(int rank, const engine::Head& head, LazyDeadline& deadline);
  void fetch(const MemoryView& memory, int rank, size_t offset, std::byte* to, size_t bytes,
      LazyDeadline& deadline, const char* call);
  void put_rows(const MemoryView& memory, int rank, const std::byte* from, const PackedRows& rows,
      LazyDeadline& deadline);
  void fetch_rows(const MemoryView& memory, int rank, std::byte* to, const PackedRows& rows,
      LazyDeadline& deadline);
  void fetch_in_parts(const MemoryView& memory, int rank, size_t offset, std::byte* to,
      size_t bytes, LazyDeadline& deadline, const char* call);
  uint64_t change_remote(const MemoryView& memory, int rank, size_t offset,
      const AtomicChange& change, bool waits, LazyDeadline& deadline);
  void await_reply(Fetch& fetch, engine::Head head, std::span<const std::byte> payload,
      LazyDeadline& deadline, const char* call);
  void send(int rank, const engine::Head& head, std::span<const std::byte> payload,
      LazyDeadline& deadline, const char* call);
  void send(int rank, const engine::Head& head, std::span<const std::byte> payload,
      uint64_t timeout_ms, const char* call) {
    LazyDeadline deadline(timeout_ms);
    send(rank, head, payload, deadline, call);
  }

  // ---- messages that programs send and receive

  void find_lost(std::span<const MessageSide> sides);
  host::MessagePort& message_port(int rank) override { return mailbox_of(rank); }
  RemoteMailbox& mailbox_of(int rank);
  // Null if there is no memory for it.
  RemoteMailbox* find_mailbox_of(int rank) noexcept;

  // ---- barriers, as HostTransport asks for them

  void arrive(int peer, int channel, uint32_t count, uint32_t set, uint64_t timeout_ms) override;
  bool has_come(int peer, int channel, uint32_t count) override;
  void await_everybody(int channel, uint32_t count, LazyDeadline& deadline) override;
  void settle_puts(int channel, LazyDeadline& deadline) override;

  // ---- the choice of an algorithm

  Algorithm plain_collective(const CollectiveCall& call) override;
  PlanReport plan_plain(const CollectiveCall& call) const override;
  size_t wide_bytes() const override;
  size_t wire_bytes() const override { return size_t{8} << 20; }
  std::string why_impossible(const CollectiveCall& call) const override;
  Algorithm algorithm_of(const CallSignature& call) const;
  std::string why_no_chain(DType dtype, Order order) const;
  std::string why_no_bruck() const;
  std::string why_not_hierarchical(DType dtype, Order order) const;

  // ---- messages of collectives. Each half of the scratch has the announcements of all ranks,
  // and behind them the area of steps, or that of the slots of rounds.

  size_t step_area() const;
  // The bytes of a slot's payload.
  size_t slot_room() const;
  int rounds_channel() const { return context_.channels; }
  Announcement& announcement_of(const host::Control& owner, uint32_t call, int source) const;
  Slot& slot_of(const host::Control& owner, uint32_t call, uint32_t round, int source) const;
  // The destination of a message of a collective; null if the message is refused.
  std::byte* place_of(
      const host::Control& owner, int source, const engine::Head& head) const noexcept;
  void note(const host::Control& owner, int source, const engine::Head& head) const noexcept;
  void enter(const CollectiveCall& call);
  // The packed signature and the count of this rank's call. With `member`, those of the
  // call with that number, counted from 1, among the calls that this rank's call is made
  // of. 0 and 0 if there is none.
  std::pair<uint64_t, uint64_t> announced(uint32_t call, uint64_t member = 0) const;
  // The calls that a rank's current call is made of; none if they are not known.
  std::vector<CallSignature> members_made_by(int rank);
  void pass(const CollectiveCall& call, int peer, engine::Head head,
      std::span<const std::byte> payload, LazyDeadline* deadline);
  void pass_step(
      const CollectiveCall& call, int peer, size_t at, std::span<const std::byte> payload);
  void await(const CollectiveCall& call, int peer, LazyDeadline& deadline);
  bool has_entered(int rank, std::optional<uint32_t>& query);
  static CallSignature signature_of(uint64_t packed, uint64_t count);
  [[noreturn]] void fail_mismatch(int peer, LazyDeadline& deadline);

  // ---- algorithms: in rounds (collective.cpp), and the others (allreduce.cpp)

  // Combines all ranks' operands, in the order of ranks.
  void combine(const CollectiveCall& call, const std::byte* const* sources, std::byte* to,
      size_t bytes) const;
  PieceExchange exchange_of(const CollectiveCall& call, bool slices) const;
  void exchange(const CollectiveCall& call, bool slices, LazyDeadline& deadline);
  void run(const CollectiveCall& call, PieceExchange& pieces, LazyDeadline& deadline);
  bool find_bytes(const CollectiveCall& call, PieceExchange& pieces);
  void send_round(const CollectiveCall& call, const PieceExchange& pieces, size_t index,
      LazyDeadline& deadline);
  size_t receive_round(const CollectiveCall& call, const PieceExchange& pieces, size_t index,
      size_t longest, host::Sources& sources);

  size_t chain_depth(int machine) const;
  size_t chain_sums(Order order) const;
  size_t chain_room(DType dtype, Order order) const;
  size_t chain_chunk(const CallSignature& call) const;
  void allreduce_chain(const CollectiveCall& call, LazyDeadline& deadline);

  // The bytes of a chunk of an operand, or of a slice, of `bytes` bytes.
  size_t hierarchical_chunk(DType dtype, size_t bytes) const;
  void allreduce_hierarchical(const CollectiveCall& call, LazyDeadline& deadline);

  size_t bruck_block() const;
  void allreduce_bruck(const CollectiveCall& call, LazyDeadline& deadline);

  // ---- messages of the engine, and queries to ranks of other machines

  bool progress() noexcept override { return endpoint_->progress(); }
  void polls(Polling what) noexcept override { endpoint_->polls(what); }
  bool has_left(int rank) noexcept override;
  host::ShownWait wait_of(int rank, uint32_t lane) noexcept override;
  void memory_added(const std::shared_ptr<const MemoryView>& memory) override {
    memories_.add(memory);
  }
  void memory_removed(const MemoryView& memory) noexcept override { memories_.remove(memory.id); }

  std::byte* place(int source, const engine::Head& head) noexcept override;
  std::byte* place_of_fetched(int source, const engine::Head& head) noexcept;
  std::byte* place_of_put(int source, const engine::Head& head) noexcept;
  std::byte* place_of_compare(int source, const engine::Head& head) noexcept;
  std::byte* place_of_rows(int source, const engine::Head& head) noexcept;
  void arrived(int source, const engine::Head& head) noexcept override;
  void signal_arrived(int source, const engine::Head& head) noexcept;
  void value_arrived(int source, const engine::Head& head) noexcept;
  void atomic_arrived(int source, const engine::Head& head) noexcept;
  void rows_arrived(int source, const engine::Head& head) noexcept;
  void put_arrived_rows(const engine::Head& head, std::span<const std::byte> payload);
  void reply_to_fetch_of_rows(
      int source, const engine::Head& head, std::span<const std::byte> payload);
  void fetched(int source, const engine::Head& head) noexcept;
  void query_answered(int source, const engine::Head& head) noexcept;
  void lost(int peer, const std::string& reason) noexcept override;
  void reply_to_fetch(int source, const engine::Head& head) noexcept;
  void reply_to_query(int source, const engine::Head& question) noexcept;
  uint32_t query(int rank, int channel = 0, uint32_t count = 0, uint32_t lane = 0,
      uint32_t member = 0) noexcept;
  std::optional<engine::Head> ask(int rank, int channel = 0, uint32_t count = 0, uint32_t lane = 0,
      uint32_t member = 0) noexcept;

  std::string engine_;
  EngineShare share_;
  const Thresholds thresholds_;
  const int local_size_;
  // The first rank of each machine.
  std::vector<int32_t> firsts_;
  // Whether each machine's ranks are consecutive, and equally many.
  bool in_line_;

  uint32_t calls_ = 0;
  // Rounds of all calls, and exchanges of all calls by bruck.
  uint32_t round_ = 0;
  uint32_t exchange_ = 0;
  // Messages of collectives that this rank has awaited, by source.
  std::vector<uint32_t> taken_;

  // Keeps queries to a rank in the order of their numbers.
  std::mutex querying_;
  // Guards the fields below, except those that are atomic. Never held while the
  // message engine is called.
  std::mutex mutex_;
  MemoryViews memories_;
  std::unordered_map<uint64_t, Fetch*> fetches_;
  uint64_t next_fetch_ = 0;
  struct PeerLoss {
    std::string reason;
    // The end of the time that the mesh gets to say why the rank was lost.
    std::optional<Deadline> until;
  };
  // By rank.
  std::vector<PeerLoss> losses_;
  struct NotifyState {
    // The replies to queries, and the queries sent.
    Word replies{0};
    Waiter waiter{0};
    uint32_t queries = 0;
    // The last reply.
    engine::Head last;
    // The messages that barriers of all come after, and those that are known to have arrived.
    std::atomic<uint32_t> sent{};
    std::atomic<uint32_t> settled{};
  };
  // By rank.
  std::vector<NotifyState> states_;
  // The memories into which messages are arriving, by source and sequence number; only in
  // calls of the message engine.
  std::map<std::pair<int, uint64_t>, std::shared_ptr<const MemoryView>> landing_;
  // The values with which words are compared, by source and sequence number; only in
  // calls of the message engine.
  std::map<std::pair<int, uint64_t>, uint64_t> compares_;
  // Messages of rows, by source and sequence number; only in calls of the message engine.
  std::map<std::pair<int, uint64_t>, std::vector<std::byte>> rows_;
  // By rank; made when a message goes there or comes from there.
  std::mutex mailboxes_mutex_;
  std::vector<std::unique_ptr<RemoteMailbox>> mailboxes_;
  // The destination of messages whose memory was released.
  std::unique_ptr<std::byte[]> discarded_;
  // Declared last and so destroyed first, because it calls this object.
  std::unique_ptr<engine::Endpoint> endpoint_;
};
}  // namespace symm::multinode
