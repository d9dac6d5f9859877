// A GPU in a group on several machines, for core/multinode (core/backend/device.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/backend/device.hpp"
#include "core/cuda/composed_calls.hpp"
#include "core/cuda/device.hpp"
#include "core/cuda/device_group.hpp"
#include "kernels/collective_call.hpp"

namespace symm::cuda {
class CudaIntranodeDevice final : public IntranodeDevice {
 public:
  explicit CudaIntranodeDevice(DeviceGroup& group) : group_(group) {}

  void* stream() const noexcept override { return gpu()->stream(); }
  void run_attached(const std::function<void()>& work) const override;
  bool is_captured(void* stream) const override;
  std::unique_ptr<PinnedStream> open_pinned_stream(size_t bytes) const override;

  std::unique_ptr<IssueTurn> take_turn(
      const char* what, uint64_t timeout_ms, void* stream) override;
  void issue_store(DeviceAddress word, uint64_t value, void* stream) override;
  void issue_wait(DeviceAddress word, uint64_t value, void* stream) override;

  std::span<std::byte> stages_of(int rank) const noexcept override {
    return group_.stages_of(rank);
  }
  size_t hop_bytes() const noexcept override { return group_.tuning.hop; }

  void issue_barrier(std::span<const int32_t> ranks, uint64_t timeout_ms, void* stream) override;
  void combine(const CollectiveCall& call, const CombineStep& step) override;
  void record_call(const CollectiveCall& call, size_t count, std::byte* records) override;
  void compare_calls(const CollectiveCall& call, size_t count, std::byte* records) override;
  void pack_pieces(const CollectiveCall& call, const PieceSlots& slots) override;
  void unpack_pieces(const CollectiveCall& call, const PieceSlots& slots) override;

  CollectiveCall plain_call(const CollectiveCall& call) const override;
  std::string reason_prefix(const CollectiveCall& call) const override;
  void issue_parts(const CollectiveCall& call,
      const std::function<void(const CollectiveCall&)>& issue_plain) override {
    issue_composed(group_, call, issue_plain);
  }

 private:
  const std::shared_ptr<Device>& gpu() const noexcept { return group_.device; }
  void launch_comparison(
      const CollectiveCall& call, size_t count, std::byte* records, bool stores) const;
  void launch_stage(const CollectiveCall& call, const PieceSlots& slots, bool unpacks) const;

  DeviceGroup& group_;
};
}  // namespace symm::cuda
