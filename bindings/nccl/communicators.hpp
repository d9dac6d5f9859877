// The table beside NCCL's communicators. The program has NCCL's own pointers, so whatever is not
// in the table, or is not known here, goes to NCCL as it is.
#pragma once

#include <memory>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/cuda_group.hpp"

namespace symm::nccl {
// What symm knows of a communicator of which NCCL has just said `state` (kInProgress: its
// creation or another call is under way): the result for a failure, else kSuccess, or kInProgress
// while symm completes what NCCL has completed, for one that does not block.
// A failure is said (see failures.hpp) when it is first found.
Result ask_communicator(Comm comm, Result state) noexcept;

// symm's part in a communicator. None: NCCL does all of its collectives.
std::shared_ptr<CudaGroup> cuda_group_of(Comm comm);

// A group of this process has been made: at exit it is left before what stands under it, such as
// the CUDA driver, has ended. Handlers run in the opposite order of their registration.
void leave_at_exit() noexcept;

// Looks for failures of all communicators.
void ask_all_communicators() noexcept;
}  // namespace symm::nccl
