// What stands in for NCCL where a process has none. Communicators are the drop-in's own then, of
// ranks on one machine, and symm does every collective. What symm cannot do by itself is refused
// with a sentence that says so.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/call.hpp"
#include "bindings/nccl/cuda_group.hpp"
#include "bindings/nccl/forwarding.hpp"
#include "bindings/nccl/host_group.hpp"
#include "bindings/nccl/meeting.hpp"

namespace symm::nccl {
// The function in place of NCCL's; null if there is none without NCCL.
void* alone_function(Function function) noexcept;

// " needs NCCL ...": why there is none here, and the cure.
std::string needs_nccl();

// The groups of a communicator that is complete.
struct AloneGroups {
  std::shared_ptr<HostGroup> ranks;
  std::shared_ptr<CudaGroup> cuda_group;
};
std::optional<AloneGroups> alone_groups(Comm comm) noexcept;

// ncclCommSplit() and ncclCommShrink(). `meeting` is the name for the child; none if the parent has
// none.
Result split_alone(Comm parent, int color, int key, Comm* child, const Config* config,
    const std::optional<Meeting>& meeting) noexcept;
Result shrink_alone(Comm parent, const int* excluded, int count, Comm* child, const Config* config,
    const std::optional<Meeting>& meeting) noexcept;

// The result of a call on a communicator that does not block, is complete, and has not been asked
// whether it is.
Result refuse_unasked(const char* call) noexcept;

// The result of a collective that symm does not take: nothing is to be done, or the call is wrong,
// or NCCL is missed.
Result answer_alone(Comm comm, const Call& call) noexcept;

// The same for what the configuration of a collective asks for; kSuccess: symm does the call. Its
// kernels are as they are, so what would tune NCCL's has no meaning.
Result judge_alone(Demand demand) noexcept;

// For a process that has NCCL, and an id that was made by one that has none: tells the ranks that
// meet by it, and refuses.
Result refuse_alone_id(const UniqueId& id, int size, int rank) noexcept;
}  // namespace symm::nccl
