// SPDX-License-Identifier: Apache-2.0
//
// Every algorithm of the host back end, one file each. count > 0 and size > 1 where they are called.
#pragma once

#include "kernels/host/call.hpp"

namespace symm::host {

void allreduce_ll(const Call& call);
void allreduce_one_shot(const Call& call);
void allreduce_two_shot(const Call& call);
void allreduce_two_shot_staged(const Call& call);
void allreduce_hybrid_cube_mesh(const Call& call);

void reduce_scatter_ll(const Call& call);
void reduce_scatter_staged(const Call& call);
void reduce_scatter_zero_copy(const Call& call);

void allgather_ll(const Call& call);
void allgather_staged(const Call& call);
void allgather_zero_copy(const Call& call);

void broadcast_ll(const Call& call);
void broadcast_staged(const Call& call);
void broadcast_zero_copy(const Call& call);

void reduce_ll(const Call& call);
void reduce_one_shot(const Call& call);
void reduce_two_shot(const Call& call);
void reduce_two_shot_staged(const Call& call);

void alltoall_ll(const Call& call);
void alltoall_staged(const Call& call);
void alltoall_zero_copy(const Call& call);

}  // namespace symm::host
