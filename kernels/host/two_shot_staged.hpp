// Two-shot for memory that others cannot reach, in chunks through scratch; used by all-reduce and, with one taker, by reduce.
#pragma once

#include "kernels/host/execution.hpp"

namespace symm::host {
// `wanted`: this rank's recv gets the result.
void two_shot_staged(const Execution& x, bool wanted);
}  // namespace symm::host
