// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/algorithms.hpp"
#include "kernels/host/two_shot_staged.hpp"

namespace symm::host {

void allreduce_two_shot_staged(const Call& call) { two_shot_staged(call, true); }

}  // namespace symm::host
