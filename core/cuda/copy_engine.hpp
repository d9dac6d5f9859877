// Collectives by copy engines: the host issues copies straight into every rank's recv.
#pragma once

#include <cstddef>
#include <string>

#include "core/cuda/device_group.hpp"
#include "core/cuda/stream_order.hpp"
#include "kernels/collective_call.hpp"

namespace symm::cuda {
class CopyEngine {
 public:
  explicit CopyEngine(const DeviceGroup& group) : group_(group), sides_(group.device) {}

  // Why engines cannot do it, "" if they can: where recv lies.
  std::string why_not(const CollectiveCall& call) const;

  // Issues a call that only moves. The caller has the turn (StreamOrder). Throws
  // Error(invalid_argument) if another thread has released recv's memory.
  void issue(const CollectiveCall& call);
  // The same for an all-gather in chunks, with the words of what has come.
  void issue_in_chunks(const CollectiveCall& call);

 private:
  void copy_block(const CollectiveCall& call, const std::byte* from, std::byte* to, bool to_peer);

  const DeviceGroup& group_;
  SideStreams sides_;
};
}  // namespace symm::cuda
