// SPDX-License-Identifier: Apache-2.0
//
// Two-shot for memory that others cannot reach, in chunks through scratch; used by all-reduce and, with one taker, by reduce.
#pragma once

#include "kernels/host/call.hpp"

namespace symm::host {

// `wanted`: this rank's recv gets the result.
void two_shot_staged(const Call& call, bool wanted);

}  // namespace symm::host
