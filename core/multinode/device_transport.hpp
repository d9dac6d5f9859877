// The transport of a group of devices on several machines: the back end's own transport
// for the ranks of this machine, and between machines NCCL, on the caller's stream.
// Sums keep the promise of the same bits: operands travel, or sums that are not rounded
// yet, and a kernel of symm's combines them in rank order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/backend/backend.hpp"
#include "core/backend/device.hpp"
#include "core/engine/link.hpp"
#include "core/engine/nccl.hpp"
#include "core/mesh/mesh.hpp"
#include "core/multinode/device_proxy.hpp"
#include "core/multinode/forwarding_transport.hpp"
#include "core/multinode/messages.hpp"
#include "kernels/collective_call.hpp"
#include "kernels/compare.hpp"
#include "kernels/pieces.hpp"
#include "kernels/types.hpp"

namespace symm::multinode {
class DeviceMultinodeTransport final : public WithRemoteRanks<ForwardingTransport> {
 public:
  // `local`: the transport of the back end, made for the same context; `device` is its device.
  DeviceMultinodeTransport(
      TransportContext context, std::unique_ptr<Transport> local, IntranodeDevice& device);
  ~DeviceMultinodeTransport() override { proxy_->close(); }

  OutgoingMessage share() const override;
  void connect(int peer, Message message, const PeerIdentity& identity) override;
  void ready() override;
  std::string engine() const override { return engine_.name(); }
  void let_go() noexcept override;

  // Barriers of ranks on several machines are one sequence, whatever their channels.
  void barrier(
      std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) override;
  void finish(int channel, uint64_t timeout_ms) override;
  void take_signal(
      const MemoryView& memory, int rank, int channel, uint64_t timeout_ms, void* stream) override;
  void wait_signals(const MemoryView& memory, std::span<const SignalWait> waits, bool any,
      uint64_t timeout_ms, size_t* out_index, uint64_t* out_seen, void* stream) override;
  void collective(const CollectiveCall& call) override;
  // The local transport would issue them between the GPUs of this machine only.
  void batch(std::span<CollectiveCall> calls) override { one_by_one(calls); }
  PlanReport plan(const CollectiveCall& call) override;

  void pass_messages(std::span<MessageSide>, uint64_t timeout_ms, void* stream) override;
  void change_value(const MemoryView& memory, int rank, size_t offset, const AtomicChange& change,
      void* fetched, uint64_t timeout_ms, void* stream) override;
  uint64_t read_value(const MemoryView& memory, int rank, size_t offset, size_t bytes,
      uint64_t timeout_ms) override;
  void get(const MemoryView& memory, int rank, size_t offset, void* to, size_t bytes,
      uint64_t timeout_ms, void* stream) override;
  void memory_added(const std::shared_ptr<const MemoryView>& memory) override;
  void memory_removed(const MemoryView& memory) noexcept override;

 private:
  bool maps(int rank) const noexcept { return context_.machines.together(rank, context_.rank); }
  void require_reach(int rank, const char* call) const;
  void to_remote(const char* call, const MemoryView& memory, int rank, engine::Head head,
      std::span<const std::byte> payload, uint64_t timeout_ms, void* stream) override;

  // Issues a call of these ranks in the order of the group's collectives, and has the
  // engine watch that it ends.
  void in_order(const char* call, uint64_t timeout_ms, void* stream, std::vector<int32_t> ranks,
      const std::function<void()>& issue);
  void barrier_of_machines(std::span<const int32_t> ranks, uint64_t timeout_ms, void* stream);
  // Exchanges with each of `ranks` but this one: what `outgoing` returns for its place
  // among them is sent, and what `incoming` returns is filled; empty: nothing.
  void exchange(uint64_t timeout_ms, void* stream, std::span<const int32_t> ranks,
      const std::function<std::span<const std::byte>(size_t)>& outgoing,
      const std::function<std::span<std::byte>(size_t)>& incoming);

  // ---- the choice of an algorithm

  Algorithm algorithm_of(const CollectiveCall& call) const;
  // The algorithm of a call whose first plain call is `plain`: not that of the plain calls that
  // carry its codes.
  Algorithm algorithm_of(const CollectiveCall& call, const CollectiveCall& plain) const;
  bool nccl_may_reduce(const CollectiveCall& call) const;
  bool reduces_by_machines(const CollectiveCall& call) const;
  std::string why_no_chain(const CollectiveCall& call) const;
  bool chain_is_faster(const CollectiveCall& call) const;
  void require_possible(const CollectiveCall& call) const;
  const char* how(const CollectiveCall& call, Algorithm algorithm) const;

  // ---- collectives. A rank's stages are cut into slots: one for what comes from each
  // rank, then one for a result; or, for each machine, one for the sums that go there
  // and one for those that come from there.

  std::byte* slot(size_t index) const {
    return device_.stages_of(context_.rank).data() + index * slot_bytes_;
  }
  void compare_calls(const CollectiveCall& call, size_t count);
  void issue(const CollectiveCall& call);
  void issue_pieces(const CollectiveCall& call);
  void issue_nccl_reduction(const CollectiveCall& call);
  void issue_reduce_scatter(const CollectiveCall& call, Algorithm algorithm);
  void issue_broadcast(const CollectiveCall& call);
  void reduce(const CollectiveCall& call, Algorithm algorithm);
  void reduce_in_one_shot(const CollectiveCall& call, size_t at);
  void reduce_slices(const CollectiveCall& call, size_t at, size_t slice);
  void publish(const CollectiveCall& call, size_t at, size_t part, size_t parts, size_t stride);
  void reduce_by_machines(
      const CollectiveCall& call, size_t at, size_t part, size_t stride, std::byte* result);
  struct Chain;
  Chain plan_chain(const CollectiveCall& call, size_t slice) const;
  void reduce_in_chain(const CollectiveCall& call, size_t at, size_t slice);
  void pass_along(const CollectiveCall& call, const Chain& chain, size_t time, std::byte* results);
  void reduce_scatter(const CollectiveCall& call, std::span<const Piece> pieces);
  void move(const CollectiveCall& call, std::span<const Piece> send, std::span<const Piece> recv);
  void gather_rows(const CollectiveCall& call);
  void reduce_scatter_rows(const CollectiveCall& call);
  void exchange_by_capacity(const CollectiveCall& call);
  // Combines operands of `bytes` bytes each by the call's operation.
  void combine(const CollectiveCall& call, const std::vector<const std::byte*>& operands, void* to,
      size_t bytes) const;

  const TransportContext context_;
  IntranodeDevice& device_;
  const size_t size_;
  const size_t me_;
  // Whether each machine's ranks are consecutive, and equally many.
  const bool in_line_;
  std::vector<int32_t> all_ranks_;
  // The ranks of this machine.
  std::vector<int32_t> local_;
  // The ranks with this one's place on each of the machines (the rail of this rank). If
  // machines are in line, this rank is number `machine_` of them.
  std::vector<int32_t> rail_;
  size_t machine_ = 0;
  size_t slot_bytes_ = 0;
  // The communicator's id, which rank 0 draws.
  engine::StreamEngine::Id id_{};
  const std::shared_ptr<DeviceProxy> proxy_;
  // Declared last and so destroyed first.
  engine::StreamEngine engine_;
};
}  // namespace symm::multinode
