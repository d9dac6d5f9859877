// The CUDA back end's half of a group: the control blocks
// of all ranks, and the launches that work on them.
#pragma once

#include "core/backend/device.hpp"
#include "core/cuda/control.hpp"
#include "core/cuda/multicast.hpp"
#include "core/cuda/stream_order.hpp"
#include "kernels/cuda/plan.hpp"
#include "kernels/cuda/plan_shapes.hpp"
#include "kernels/scaled_call.hpp"

namespace symm::cuda {
size_t pad_bytes(int size, int channels);
CUstream stream_of(void* stream);  // checked

class CudaTransport final : public Transport, public DeviceTransport {
 public:
  CudaTransport(TransportContext context, std::shared_ptr<Device> device, const PlanValues& values);
  ~CudaTransport() override;

  OutgoingMessage share() const override;
  void connect(int peer, Message message, const PeerIdentity& identity) override;
  void ready() override;

  void barrier(
      std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) override;
  void finish(int channel, uint64_t timeout_ms) override;
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
  uint64_t scratch_bytes() const noexcept override { return cuda::scratch_bytes(layout_); }
  uint64_t lent_bytes() const noexcept override { return layout_.lent; }
  int max_ranks() const noexcept override { return kMaxRanks; }
  int max_memories() const noexcept override { return kMaxMemories; }

  void check_device_errors() override;
  void memory_added(const std::shared_ptr<const MemoryView>& memory) override;
  void memory_removed(const MemoryView& memory) noexcept override;
  Tables device_tables(const MemoryView& memory) const override;

  std::string why_no_multicast() const override { return multicast_.why_not(); }
  void add_multicast(MemoryView& memory, const std::vector<std::shared_ptr<Block>>& blocks,
      OutOfBand& out_of_band) override {
    multicast_.add(memory, blocks, out_of_band);
  }
  size_t block_unit() const noexcept override { return multicast_.unit(); }
  IntranodeDevice* intranode() override;

 private:
  // The ranks of this machine in a group on several: it is made of the functions that follow.
  friend class CudaIntranodeDevice;

  // What goes on a stream between ranks of several machines takes turns by this, and
  // works in these bytes of this rank's scratch.
  StreamOrder& order() noexcept { return order_; }
  std::span<std::byte> stages_of(int rank) const noexcept;  // of one on this machine
  const std::shared_ptr<Device>& gpu() const noexcept { return device_; }
  const TransportContext& context() const noexcept { return context_; }
  const Kernels& kernels() const noexcept { return kernels_; }
  ScaledCall scaled(const CollectiveCall& call) const;
  RowsOfNorm rows_of(const CollectiveCall& call) const;
  // Of a call with a factor or with RMSNorm: the plain ones that it is made of, by
  // `issue_plain`, and what comes between them.
  void issue_parts(
      const CollectiveCall& call, const std::function<void(const CollectiveCall&)>& issue_plain);
  CollectiveArgs arguments_of(const CollectiveCall& call) const;
  PiecesArgs pieces_of(const CollectiveCall& call) const;
  void launch_barrier(std::span<const int32_t> ranks, int channel, uint64_t timeout_ms,
      void* stream, uint32_t operation = static_cast<uint32_t>(Operation::barrier));
  const Tuning& tuning() const noexcept { return tuning_; }
  void write_word(CUdeviceptr word, uint64_t value, WriteKind kind, void* stream);
  void wait_word(uint64_t timeout_ms, Operation operation, CUdeviceptr taken, const WordWait& wait,
      void* stream);
  bool maps(int rank) const noexcept { return context_.machines.together(rank, context_.rank); }

  Tuning choose_tuning() const;
  DeviceComm comm(uint64_t timeout_ms, uint32_t operation) const;
  PlanInput plan_input(const CollectiveCall& call) const;
  Plan possible_plan(const PlanInput& input) const;
  CUfunction kernel_of(const PlanInput& input, const Plan& chosen);
  std::string why_no_engine(const CollectiveCall& call) const;
  // null: it is private
  std::shared_ptr<const MemoryView> memory_of_recv(
      const CollectiveCall& call, size_t* offset) const;
  void issue(const CollectiveCall& call, const PlanInput& input, const Plan& chosen);
  void launch_check(const CollectiveCall& call, uint64_t memory = 0, uint64_t offset = 0);
  void copy_by_engine(const CollectiveCall& call);
  CollectiveCall planned_call(const CollectiveCall& call) const;
  void launch_conversion(const CollectiveCall& call, const Conversion& conversion);
  void launch_rmsnorm(
      CUfunction kernel, const RowShape& shape, const CollectiveCall& call, const RmsNorm& norm);
  void launch_pieces(const CollectiveCall& call, const PlanInput& input, const Plan& chosen);
  void launch_collective(const CollectiveCall& call, const PlanInput& input, const Plan& chosen);
  void tell_kernels() noexcept;

  TransportContext context_;
  std::shared_ptr<Device> device_;
  const CudaTransport* lender_;
  PlanValues values_;
  Tuning tuning_;
  Facts facts_;
  bool copies_in_bulk_ = false;
  Layout layout_;
  std::vector<std::shared_ptr<Allocation>> controls_;  // by group rank
  std::vector<Uuid> uuids_;
  MulticastMemories multicast_;
  std::shared_ptr<Allocation> stages_;  // the block with this rank's: its own or the lender's
  std::shared_ptr<ErrorMailbox> mailbox_;
  Kernels kernels_;
  // of kernels_, as they were asked for; guarded by order_'s turn
  CUfunction collectives_[kKernelForms][kArithmetics] = {};
  // without what differs from call to call
  DeviceComm comm_{};
  StreamOrder order_;
  SideStreams sides_;  // guarded by order_'s turn
  std::shared_ptr<void> listener_;

  std::shared_ptr<MemoryTable> memories_;
  // Made when it is first asked for.
  std::unique_ptr<IntranodeDevice> intranode_;
};
}  // namespace symm::cuda
