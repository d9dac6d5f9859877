// SPDX-License-Identifier: Apache-2.0
//
// PMI-1, the text protocol by which hydra (MPICH, Intel MPI) and Slurm talk with the processes that they start, over the socket $PMI_FD.
//
// Its key-value space needs a barrier of all ranks between put and get, which would have to fit in with the barriers of an MPI library in the
// same process. All that symm needs is what tells this job from any other: the name of the key-value space. Everything else goes
// through a directory named after it.
#pragma once

#include <string>

#include "core/wait.hpp"

namespace symm {

// The name of this job's key-value space. Asked once per process. Throws Error: unavailable if the process manager does not answer as it
// should, timeout.
std::string pmi1_job(int fd, Deadline deadline);

// One conversation, for tests and the above. After a timeout, the next call goes on where it stopped.
class Pmi1 {
 public:
  explicit Pmi1(int fd) : fd_(fd) {}
  std::string kvsname(Deadline deadline);

 private:
  std::string ask(const std::string& request, Deadline deadline);
  void send(const std::string& line, Deadline deadline);
  std::string receive(Deadline deadline);

  int fd_;
  bool initialised_ = false;
  bool asked_ = false;
  std::string received_;
};

// The value of `key` in a line "cmd=<command> name=value ...". Throws Error(unavailable) for a line of another command, a malformed one, one
// whose rc is not 0, or one without the key.
std::string pmi1_field(const std::string& line, const std::string& command, const std::string& key);

}  // namespace symm
