// The transport of a group of GPUs that spans machines: on each of them
// the CUDA back end's, and between them NCCL, on the caller's stream. Sums
// keep the promise of the same bits: operands travel, or sums that are not
// rounded yet, and a kernel of symm's combines them in rank order.
#pragma once

#include "core/cuda/transport.hpp"
#include "core/engine/nccl.hpp"
#include "core/multinode/device_proxy.hpp"

namespace symm::multinode {
class DeviceMultinodeTransport final : public WithRemoteRanks<cuda::CudaTransport> {
 public:
  DeviceMultinodeTransport(
      TransportContext context, std::shared_ptr<cuda::Device> device, const PlanValues& values);
  ~DeviceMultinodeTransport() override { courier_->close(); }

  OutgoingMessage share() const override;
  void connect(int peer, Message message, const PeerIdentity& identity) override;
  void ready() override;
  std::string engine() const override { return engine_.name(); }
  void let_go() noexcept override {
    courier_->let_go();
    engine_.await_end();
  }

  // Of ranks on several machines those on all channels are one sequence.
  void barrier(
      std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) override;
  void finish(int channel, uint64_t timeout_ms) override;
  void collective(const CollectiveCall& call) override;
  PlanReport plan(const CollectiveCall& call) override;

  // To and from ranks of other machines by the message engine.
  void get(const MemoryView& memory, int rank, size_t offset, void* to, size_t bytes,
      void* stream) override;
  void memory_added(const std::shared_ptr<const MemoryView>& memory) override;
  void memory_removed(const MemoryView& memory) noexcept override;

 private:
  void require_reach(int rank, const char* what) const override;
  void to_remote(const char* what, const MemoryView& memory, int rank, engine::Head head,
      std::span<const std::byte> payload, void* stream) override;
  void settle(void* stream);
  DeviceProxy::Stream with_words(void* stream);

  void require_possible(const CollectiveCall& call) const;
  void in_order(const char* what, uint64_t timeout_ms, void* stream, std::vector<int32_t> whom,
      const std::function<void()>& issue);
  // Each of `ranks` but this one is sent what `sent` of its place among them names, and
  // sends what fills `got`; empty: nothing.
  void trade(uint64_t timeout_ms, void* stream, std::span<const int32_t> ranks,
      const std::function<std::span<const std::byte>(size_t)>& sent,
      const std::function<std::span<std::byte>(size_t)>& got);
  CollectiveCall plain_call(const CollectiveCall& call) const;
  Algorithm algorithm_of(const CollectiveCall& call) const;
  bool nccl_may_add(const CollectiveCall& call) const;
  bool goes_by_machines(const CollectiveCall& call) const;
  std::string why_no_chain(const CollectiveCall& call) const;
  bool chain_is_shorter(const CollectiveCall& call) const;

  // What a collective is made of. In its slots a rank gathers what it needs of each
  // rank; then a result; or its machine's sums for each machine, and those of others.
  std::byte* slot(size_t rank) const { return stages().data() + rank * slot_bytes_; }
  void compare(const CollectiveCall& call, size_t count);
  void issue(const CollectiveCall& call);
  void reduce(const CollectiveCall& call, Algorithm algorithm);
  void reduce_slices(const CollectiveCall& call, size_t at, size_t slice);
  void publish(const CollectiveCall& call, size_t at, size_t part, size_t parts, size_t stride);
  void reduce_by_machines(
      const CollectiveCall& call, size_t at, size_t part, size_t stride, std::byte* result);
  void reduce_in_chain(const CollectiveCall& call, size_t at, size_t slice);
  void reduce_scatter(const CollectiveCall& call, std::span<const Piece> pieces);
  void move(const CollectiveCall& call, std::span<const Piece> send, std::span<const Piece> recv);
  void gather_rows(const CollectiveCall& call);
  void exchange_by_capacity(const CollectiveCall& call);
  void stage(cuda::StageArgs& args, bool takes, void* stream);
  // As CombineArgs says.
  struct Part {
    Op op;
    const std::byte* before = nullptr;
    bool unrounded = false;
  };
  void combine(const CollectiveCall& call, const std::vector<const std::byte*>& operands, void* to,
      size_t bytes) {
    combine(call, operands, to, bytes, {call.op});
  }
  void combine(const CollectiveCall& call, const std::vector<const std::byte*>& operands, void* to,
      size_t bytes, const Part& part);

  const size_t size_, me_;
  const bool in_line_;  // the machines' ranks
  // All ranks, those of this one's machine, and those who have its place on each of the
  // machines. Where these are in line, `machine_` is among the latter.
  std::vector<int32_t> everybody_, local_, rail_;
  size_t machine_ = 0;
  size_t slot_bytes_ = 0;
  engine::StreamEngine::Id id_{};  // rank 0's
  const std::shared_ptr<DeviceProxy> courier_;
  engine::StreamEngine engine_;  // first to go
};
}  // namespace symm::multinode
