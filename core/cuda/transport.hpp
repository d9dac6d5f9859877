// The CUDA back end's half of a group: it forms the group on the device, and passes the calls of
// the group on to what issues them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/device.hpp"
#include "core/backend/nccl_column.hpp"
#include "core/backend/plan_table.hpp"
#include "core/cuda/allocation.hpp"
#include "core/cuda/atomic_reach.hpp"
#include "core/cuda/collectives.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/device_group.hpp"
#include "core/cuda/driver.hpp"
#include "core/cuda/error_mailbox.hpp"
#include "core/cuda/exchange.hpp"
#include "core/cuda/memory_table.hpp"
#include "core/cuda/messages.hpp"
#include "core/cuda/nvml.hpp"
#include "core/cuda/piece_copies.hpp"
#include "core/mesh/mesh.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/compare.hpp"
#include "kernels/cuda/args.hpp"
#include "kernels/cuda/layout.hpp"

namespace symm::cuda {
class CudaTransport final : public Transport, public DeviceTransport {
 public:
  CudaTransport(TransportContext context, std::shared_ptr<Device> device, const PlanValues& values,
      NcclColumn column);
  ~CudaTransport() override;

  OutgoingMessage share() const override;
  void connect(int peer, Message message, const PeerIdentity& identity) override;
  void ready() override;

  void barrier(
      std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) override;
  void finish(int channel, uint64_t timeout_ms) override;
  void send_signal(const MemoryView& memory, int rank, int channel, SignalOp op, uint64_t value,
      uint64_t timeout_ms, void* stream) override;
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

  void pass_messages(std::span<MessageSide> sides, uint64_t timeout_ms, void* stream) override {
    messages_.pass(sides, timeout_ms, stream);
  }
  std::unique_ptr<ExchangeRounds> make_exchange(
      const MemoryView& words, std::span<const NeighborPieces> parts) override {
    return std::make_unique<Exchange>(group_, words, parts);
  }
  void copy(void* to, const void* from, size_t bytes, void* stream) override {
    group_.copy(to, from, bytes, stream);
  }
  bool streams_pieces() const noexcept override { return true; }
  void put_pieces(const MemoryView& memory, int rank, size_t offset, const void* from,
      const PieceCopy& pieces, uint64_t timeout_ms, void* stream) override;
  void get_pieces(const MemoryView& memory, int rank, size_t offset, void* to,
      const PieceCopy& pieces, uint64_t timeout_ms, void* stream) override;
  void fill_here(void* to, const Copies& copies, void* stream) override;
  void collective(const CollectiveCall& call) override { collectives_.issue(call); }
  void batch(std::span<CollectiveCall> calls) override { collectives_.issue(calls); }
  PlanReport plan(const CollectiveCall& call) override {
    PlanReport report = collectives_.plan(call);
    nccl_column_.advise(call, report);
    return report;
  }
  void stream_wait(void* stream, void* after) override;
  bool stream_done(void* stream) override;
  std::unique_ptr<MessageWait> await_message(MessageCall call, int peer, uint16_t) override {
    return group_.issued.await_message(call, peer);
  }
  std::unique_ptr<MessageWait> await_stream() override { return group_.issued.await_stream(); }

  uint64_t scratch_bytes() const noexcept override { return cuda::scratch_bytes(group_.layout); }
  uint64_t lent_bytes() const noexcept override { return group_.layout.lent; }
  int max_ranks() const noexcept override { return kMaxRanks; }
  int max_memories() const noexcept override { return kMaxMemories; }

  void check_device_errors() override;
  void memory_added(const std::shared_ptr<const MemoryView>& memory) override;
  void memory_removed(const MemoryView& memory) noexcept override;
  Tables device_tables(const MemoryView& memory) const override {
    return addresses_of(memory, group_.context.rank);
  }

  std::string why_no_multicast() const override { return group_.multicast.why_not(); }
  void add_multicast(MemoryView& memory, const std::vector<std::shared_ptr<Block>>& blocks,
      OutOfBand& out_of_band) override {
    group_.multicast.add(memory, blocks, out_of_band);
  }
  size_t block_unit() const noexcept override { return group_.multicast.unit(); }
  IntranodeDevice* intranode() override;

 private:
  size_t me() const noexcept { return static_cast<size_t>(group_.context.rank); }
  // Whether `rank` is on this machine, so that its memory is mapped here.
  bool maps(int rank) const noexcept {
    return group_.context.machines.together(rank, group_.context.rank);
  }
  int max_ranks_on_one_device() const;
  // The word in which the signal of a copy goes to `rank`, or 0. Throws Error(unsupported) if that
  // rank is on another machine.
  CUdeviceptr word_behind_pieces(
      const MemoryView& memory, int rank, const OutgoingSignal* signal) const;
  // Throws Error(unsupported), with the reason, if this rank's kernels cannot change words of
  // `rank`'s block in single steps.
  void require_atomic_reach(const MemoryView& memory, int rank);
  void tell_kernels() noexcept;

  // The transport of the group in whose scratch this one works, or null.
  const CudaTransport* lender_;
  DeviceGroup group_;
  PlanValues values_;
  NcclColumn nccl_column_;
  // By group rank.
  std::vector<std::shared_ptr<Allocation>> controls_;
  std::vector<Uuid> uuids_;
  std::vector<LinkFacts> links_;
  AtomicReach atomic_reach_;
  // The block that has this rank's stages: its own, or the lender's.
  std::shared_ptr<Allocation> stages_;
  std::shared_ptr<ErrorMailbox> mailbox_;
  std::shared_ptr<MemoryTable> memories_;
  Collectives collectives_;
  Messages messages_;
  PieceCopies piece_copies_;
  // Made when it is first asked for.
  std::unique_ptr<IntranodeDevice> intranode_;
  // Calls tell_kernels(), so it goes first.
  std::shared_ptr<void> listener_;
};
}  // namespace symm::cuda
