// SPDX-License-Identifier: Apache-2.0
//
// What tells one job of a PMI launcher (MPICH's and Intel MPI's hydra) from another.
#pragma once

#include <string>

namespace symm {

// Named after the process manager's process at the other end of PMI_FD. Nothing is said over that socket: it belongs to the MPI
// library that the program may also use, and hydra kills the job if a process that ever spoke to it ends without the farewell
// that only that library can send. Throws Error(unavailable) if `fd` is no such socket.
std::string pmi_job(int fd);

}  // namespace symm
