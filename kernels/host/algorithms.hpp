// SPDX-License-Identifier: Apache-2.0
//
// Every algorithm of the host back end, one file each. count > 0 and size > 1 where they are called.
#pragma once

#include "kernels/host/execution.hpp"

namespace symm::host {

void allreduce_ll(const Execution& x);
void allreduce_one_shot(const Execution& x);
void allreduce_two_shot(const Execution& x);
void allreduce_two_shot_staged(const Execution& x);
void allreduce_hybrid_cube_mesh(const Execution& x);

void reduce_scatter_ll(const Execution& x);
void reduce_scatter_staged(const Execution& x);
void reduce_scatter_zero_copy(const Execution& x);

void allgather_ll(const Execution& x);
void allgather_staged(const Execution& x);
void allgather_zero_copy(const Execution& x);

void broadcast_ll(const Execution& x);
void broadcast_staged(const Execution& x);
void broadcast_zero_copy(const Execution& x);

void reduce_ll(const Execution& x);
void reduce_one_shot(const Execution& x);
void reduce_two_shot(const Execution& x);
void reduce_two_shot_staged(const Execution& x);

void alltoall_ll(const Execution& x);
void alltoall_staged(const Execution& x);
void alltoall_zero_copy(const Execution& x);

}  // namespace symm::host
