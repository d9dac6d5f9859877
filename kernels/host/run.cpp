// SPDX-License-Identifier: Apache-2.0
#include "kernels/host/algorithms.hpp"
#include "kernels/host/operands.hpp"

namespace symm::host {
namespace {

using Run = void (*)(const Call& call);

// By collective, as in types.hpp.
struct Forms {
  Run ll;
  Run one_shot;
  Run two_shot;
  Run two_shot_staged;
  Run hybrid_cube_mesh;
};
constexpr Forms kForms[] = {
    {allreduce_ll, allreduce_one_shot, allreduce_two_shot, allreduce_two_shot_staged, allreduce_hybrid_cube_mesh},
    {reduce_scatter_ll, reduce_scatter_staged, reduce_scatter_zero_copy, reduce_scatter_staged, nullptr},
    {allgather_ll, allgather_staged, allgather_zero_copy, allgather_staged, nullptr},
    {broadcast_ll, broadcast_staged, broadcast_zero_copy, broadcast_staged, nullptr},
    {reduce_ll, reduce_one_shot, reduce_two_shot, reduce_two_shot_staged, nullptr},
    {alltoall_ll, alltoall_staged, alltoall_zero_copy, alltoall_staged, nullptr},
};

Run find(const Call& call) noexcept {
  const Forms& forms = kForms[static_cast<size_t>(call.collective)];
  switch (call.plan.algorithm) {
    case Algorithm::ll: return forms.ll;
    case Algorithm::one_shot: return forms.one_shot;
    case Algorithm::two_shot: return forms.two_shot;
    case Algorithm::two_shot_staged: return forms.two_shot_staged;
    case Algorithm::hybrid_cube_mesh: return forms.hybrid_cube_mesh;
    case Algorithm::multimem_one_shot:
    case Algorithm::multimem_two_shot:
    case Algorithm::automatic: return nullptr;
  }
  return nullptr;
}

}  // namespace

void run(const Call& call) {
  if (call.count == 0 || call.size == 1) {
    if (!call.plan.entered) call.sync->enter(nullptr, 0);
    copy_planned(call, call.recv, call.send, bytes_of(call));
    return;
  }
  find(call)(call);
}

}  // namespace symm::host
