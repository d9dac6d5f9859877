// SPDX-License-Identifier: Apache-2.0
//
// The CUDA back end's half of a group: the control blocks of all ranks, and the launches that work on them.
#pragma once

#include <memory>
#include <vector>

#include "core/base/timed_mutex.hpp"
#include "core/cuda/control.hpp"
#include "core/cuda/cube_mesh.hpp"
#include "core/cuda/kernels.hpp"
#include "core/cuda/multicast_memories.hpp"
#include "core/cuda/stream_order.hpp"

namespace symm::cuda {

class CudaTransport final : public Transport, public DeviceTransport {
 public:
  CudaTransport(TransportContext context, std::shared_ptr<Device> device, const PlanValues& values);
  ~CudaTransport() override;

  OutgoingMessage share() const override;
  void connect(int peer, Message message, const PeerIdentity& identity) override;
  void ready() override;

  void barrier(std::span<const int32_t> ranks, int channel, uint64_t timeout_ms, void* stream) override;
  void finish(int channel, uint64_t timeout_ms) override;
  void put_signal(const MemoryView& memory, int rank, int channel, void* stream) override;
  void wait_signal(const MemoryView& memory, int rank, int channel, uint32_t taken, uint64_t timeout_ms, void* stream) override;
  void copy(void* to, const void* from, size_t bytes, void* stream) override;
  void fill32(void* to, uint32_t value, size_t count, void* stream) override;
  void write32(void* to, uint32_t value, void* stream) override;
  void collective(const CollectiveCall& call) override;
  PlanReport plan(const CollectiveCall& call) override;
  void stream_wait(void* stream, void* after) override;
  bool stream_done(void* stream) override;

  void check_device_errors() override;
  void memory_added(const MemoryView& memory) override;
  void memory_removed(const MemoryView& memory) noexcept override;
  Tables device_tables(const MemoryView& memory) const override;

  std::string why_no_multicast() const override { return multicast_.why_not(); }
  void add_multicast(MemoryView& memory, const std::vector<std::shared_ptr<Block>>& blocks, OutOfBand& out_of_band) override {
    multicast_.add(memory, blocks, out_of_band);
  }
  size_t block_unit() const noexcept override { return multicast_.unit(); }

 private:
  DeviceComm comm(uint64_t timeout_ms, uint32_t operation) const;
  PlanInput plan_input(const CollectiveCall& call) const;
  Plan possible_plan(const PlanInput& input) const;
  CUfunction kernel_of(const PlanInput& input, Algorithm algorithm);
  void launch_collective(const CollectiveCall& call, const PlanInput& input, const Plan& chosen);
  void tell_kernels() noexcept;

  TransportContext context_;
  std::shared_ptr<Device> device_;
  PlanValues values_;
  Tuning tuning_;
  Facts facts_;
  Layout layout_;
  std::vector<std::shared_ptr<Allocation>> controls_;  // by group rank
  std::vector<Uuid> uuids_;
  MulticastMemories multicast_;
  std::vector<LinkFacts> link_facts_;
  CubeMesh cube_mesh_;  // what is used where that is forced
  ErrorMailbox mailbox_;
  Kernels kernels_;
  CUfunction collectives_[kAlgorithms][kArithmetics] = {};  // of kernels_, as they were asked for; guarded by turn_
  DeviceComm comm_{};                                       // without what differs from call to call
  TimedMutex turn_;
  StreamOrder order_;
  std::shared_ptr<void> listener_;

  std::shared_ptr<MemoryTable> memories_;
};

}  // namespace symm::cuda
