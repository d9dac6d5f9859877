// How the launcher describes this process in the environment. The first source that is present is
// used:
//   1. SYMM_RANK and SYMM_SIZE;
//   2. Open MPI;
//   3. PMI (MPICH, Intel MPI, srun --mpi=pmi2);
//   4. torchrun;
//   5. a task of a Slurm step;
//   6. a PMIx server (of PRRTE's prterun), which has to be asked for the size;
//   7. none: a single process.
// All sources that are present are parsed, and two that differ in rank or size are refused, unless
// a launcher runs inside another one's job:
//   - SLURM_* of a batch script or an allocation (salloc, sbatch) is not a step with tasks, and
//     does not count;
//   - a source with one rank, other than SYMM_*, is the job around the launcher (srun -n 1 --pty, a
//     torchrun with one worker) if another source has more ranks;
//   - a source with as many ranks as torchrun has agents (GROUP_WORLD_SIZE) started the agents
//     (srun --ntasks-per-node=1 torchrun), whose workers are torchrun's ranks.
// A process that some other launcher started, or one whose variables say its rank but not how many
// ranks there are, or the other way round, is not taken for a single process: `refusal` says what
// to do. What may be there without other ranks says nothing (docs/environment.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace symm {
using Environment = std::map<std::string, std::string>;

Environment current_environment();

struct Launch {
  int rank = 0;
  int size = 1;         // 0: the PMIx server has to be asked
  int local_size = -1;  // -1: not known
  std::string source;   // "Open MPI"; "single process"
  // Tells this launch from others of the user on this machine; "" for a single process.
  std::string job;
  std::string directory;  // SYMM_DIR
  bool several = false;   // there are ranks on other machines, as far as is known
  uint16_t port = 0;      // SYMM_PORT, if there are several machines
  // "host:port" of rank 0, if there are several machines and the variables say it.
  std::string place;
  bool pmix = false;  // there is a PMIx server that may be asked
  int pmi_fd = -1;    // the socket to the process manager
  // Why rank and size cannot be taken from the launcher; "" if they can.
  std::string refusal;
  bool single() const noexcept { return source == "single process"; }
};

// Throws Error: invalid_argument naming a malformed variable, mismatch naming two variables that
// disagree.
Launch parse_environment(const Environment& environment);

// A name that tells one job of a PMI launcher (MPICH's and Intel MPI's hydra) from another, made of
// the identity of the process manager at the other end of PMI_FD. Nothing is sent on that socket:
// it belongs to the MPI library that the program may also use, and hydra kills the job if a process
// that ever spoke to it ends without the farewell that only that library can send. Throws
// Error(unavailable) if `fd` is not such a socket.
std::string pmi_job(int fd);
}  // namespace symm
