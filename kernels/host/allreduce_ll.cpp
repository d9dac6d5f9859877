// SPDX-License-Identifier: Apache-2.0
//
// The whole operand rides in the entry line: one hop, and no scratch.
#include "kernels/host/algorithms.hpp"
#include "kernels/host/operands.hpp"

namespace symm::host {

void allreduce_ll(const Call& call) {
  const size_t bytes = bytes_of(call);
  call.sync->enter(call.send, bytes);
  Sources sources(call.size);
  for (int peer = 0; peer < call.size; ++peer) sources[peer] = entered_operand(call, peer);
  reduce_into(call, sources.data(), call.recv, bytes);
}

}  // namespace symm::host
