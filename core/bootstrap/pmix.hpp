// The job of this process as a PMIx server on this machine (that of Open MPI, PRRTE or Slurm) knows
// it, and the place of rank 0, which the server tells from rank to rank. libpmix.so.2 is loaded for
// that, and PMIx_Finalize() is called only as the process exits, for two reasons: an MPI library
// may use PMIx later, and could not initialise it again; and a launcher ends a job if one of its
// processes exits without that call.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/wait.hpp"

namespace symm {
struct PmixJob {
  int size = 0;
  int local_size = 0;
  std::string place;  // "host:port" of rank 0, if there are several machines
};
// Asks once; later calls return the first answer. Collective over the ranks of the job if there are
// several machines. `port` 0: any free port. Throws Error: unavailable with what PMIx says, or what
// is missing; timeout; mismatch if the server has another rank for this process.
PmixJob pmix_job(int rank, uint16_t port, Deadline deadline);
}  // namespace symm
