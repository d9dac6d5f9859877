// What the launcher says about this process, in the environment.
//
// Sources, the first that is present being used: SYMM_RANK and SYMM_SIZE; Open MPI; PMI
// (MPICH, Intel MPI, srun --mpi=pmi2); torchrun; a task of a Slurm step; a PMIx server
// (of PRRTE's prterun), which has to be asked for the size; none, which means a single
// process. All that are present are parsed, and two that differ in rank or size are
// refused, except where a launcher runs inside another one's job:
//   - SLURM_* of a batch script or an allocation (salloc,
//     sbatch) is not a step with tasks, and says nothing;
//   - a source with one rank, other than SYMM_*, is the job around the launcher (srun
//     -n 1 --pty, a torchrun with one worker) if another source has more ranks.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace symm {
using Environment = std::map<std::string, std::string>;

Environment current_environment();

struct Launch {
  int rank = 0;
  int size = 1;           // 0: PMIx knows
  int local_size = -1;    // -1: not known
  std::string source;     // "Open MPI"; "single process"
  std::string job;        // of this launch on this machine, for one user; "" for a single process
  std::string directory;  // SYMM_DIR
  bool several = false;   // machines, as far as is known
  uint16_t port = 0;      // SYMM_PORT, where there are several
  std::string place;      // "host:port" of rank 0, if they say; only where there are several
  bool pmix = false;      // a server is there that may be asked
  int pmi_fd = -1;        // leads to the process manager
  bool single() const noexcept { return source == "single process"; }
};

// Throws Error: invalid_argument naming a malformed
// variable, mismatch naming two that disagree.
Launch parse_environment(const Environment& environment);

// What tells one job of a PMI launcher (MPICH's and Intel MPI's hydra) from another,
// after the process manager's process at the other end of PMI_FD. Nothing is said over
// that socket: it belongs to the MPI library that the program may also use, and hydra
// kills the job if a process that ever spoke to it ends without the farewell that only
// that library can send. Throws Error(unavailable) if `fd` is no such socket.
std::string pmi_job(int fd);
}  // namespace symm
