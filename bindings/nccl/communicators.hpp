// The table beside NCCL's communicators. The program has NCCL's own pointers, so
// calls on a communicator that is not in the table, and calls that are not known
// here, go to NCCL unchanged.
#pragma once

#include <memory>
#include <string>

#include "bindings/nccl/abi.hpp"
#include "bindings/nccl/cuda_group.hpp"

namespace symm::nccl {
// Returns symm's state of a communicator whose state NCCL has just given as `state`
// (kInProgress: its creation or another call is under way): the result for a failure, otherwise
// kSuccess, or, for a communicator that does not block, kInProgress while symm completes what
// NCCL has completed. A failure is reported (see failures.hpp) when it is first found.
Result ask_communicator(Comm comm, Result state) noexcept;

// What ask_communicator() has reported of a communicator; "" if nothing.
std::string failure_of_communicator(Comm comm);

// symm's part in a communicator; null if NCCL does all of its collectives.
std::shared_ptr<CudaGroup> cuda_group_of(Comm comm);

// A group of this process has been made: at exit it is left before what stands under it, such as
// the CUDA driver, has ended. Handlers run in the opposite order of their registration.
void leave_at_exit() noexcept;

// Looks for failures of all communicators.
void ask_all_communicators() noexcept;
}  // namespace symm::nccl
