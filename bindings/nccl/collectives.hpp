// Calls between ncclGroupStart() and ncclGroupEnd(), as far as symm has a part in them. The depth
// and the calls are the thread's, as they are in NCCL.
#pragma once

#include "bindings/nccl/abi.hpp"

namespace symm::nccl {
// Called when ncclGroupStart() has succeeded.
void open_collectives() noexcept;

// Before the outermost ncclGroupEnd(): issues the calls that symm takes, and what has turned out
// to be NCCL's goes to NCCL. Returns the first error.
Result issue_collectives() noexcept;

// After the outermost ncclGroupEnd(): issues the messages that symm takes, behind all collectives,
// as NCCL does. Returns the first error.
Result close_collectives() noexcept;

// Ends a group of calls. Returns the number of groups that were open before; 0 if
// none was open.
int leave_collectives() noexcept;
int open_depth() noexcept;

// Called when ncclGroupSimulateEnd() has dropped the calls.
void drop_collectives() noexcept;
}  // namespace symm::nccl
