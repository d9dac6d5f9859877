// What a PMIx server on this machine (that of Open MPI, PRRTE or Slurm) knows of the
// job of this process, and tells from rank to rank: where rank 0 is. libpmix.so.2 is
// loaded for that, stays, and says at_exit as the process exits: an MPI library may
// use it meanwhile, which cannot begin again what has ended, and a launcher ends a job
// of which a process leaves without a word.
#pragma once

#include <string>

#include "core/base/wait.hpp"

namespace symm {
struct PmixJob {
  int size = 0, local_size = 0;
  std::string place;  // "host:port" of rank 0; only where there are several machines
};
// The same for ever after. Collective over the ranks of the job
// where there are several machines. `port` 0: one that is free.
// Throws Error: unavailable with what PMIx says, or what is missing;
// timeout; mismatch if the server has another rank for this process.
PmixJob pmix_job(int rank, uint16_t port, Deadline deadline);
}  // namespace symm
