// The table beside NCCL's communicators. The program has NCCL's own pointers, so whatever is not
// in the table, or is not known here, goes to NCCL as it is.
#pragma once

#include "bindings/nccl/abi.hpp"

namespace symm::nccl {
// What symm knows of a communicator of which NCCL has just said `state` (kInProgress: its
// creation or another call is under way): the result for a failure, else kSuccess.
// A failure is said (see failures.hpp) when it is first found.
Result ask_communicator(Comm comm, Result state) noexcept;

// Looks for failures of all communicators.
void ask_all_communicators() noexcept;
}  // namespace symm::nccl
