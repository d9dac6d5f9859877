// The messages of a group of GPUs: one launch for all sides of a call. Launches that pass messages
// take their turn among the collectives of the group.
#pragma once

#include <cstdint>
#include <span>

#include "core/backend/backend.hpp"
#include "core/cuda/device_group.hpp"
#include "core/cuda/driver.hpp"
#include "kernels/cuda/args.hpp"

namespace symm::cuda {
class Messages {
 public:
  explicit Messages(DeviceGroup& group) : group_(group) {}

  // As Transport::pass_messages(), on a stream. What this rank sends to itself is also received
  // here, in the same call. Refuses before anything is issued.
  void pass(std::span<MessageSide> sides, uint64_t timeout_ms, void* stream);

 private:
  // `work`: the blocks that the sides are worth.
  void launch(std::span<const SideArgs> list, uint64_t work, Operation operation,
      uint64_t timeout_ms, CUstream stream);

  DeviceGroup& group_;
};
}  // namespace symm::cuda
