// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/pmi_job.hpp"

#include <sys/socket.h>

#include <cerrno>

#include "core/base/error.hpp"
#include "core/base/process_stat.hpp"

namespace symm {

std::string pmi_job(int fd) {
  ucred manager{};
  socklen_t size = sizeof manager;
  const int error = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &manager, &size) == 0 ? 0 : errno;
  if (error != 0 || manager.pid <= 0) {
    const std::string why = error != 0 ? system_error(error, "getsockopt").what() : "its process cannot be seen from here";
    throw Error(
        Status::unavailable,
        format("PMI_FD is %d, which does not lead to a process manager on this machine (%s; MPI_Finalize() closes it): make the "
               "first group earlier, or set SYMM_JOB to a name or SYMM_DIR to a directory, the same for all ranks",
               fd, why.c_str()));
  }
  const auto stat = process_stat(manager.pid);
  return format("pmi-%lld-%llu", static_cast<long long>(manager.pid), static_cast<unsigned long long>(stat ? stat->start : 0));
}

}  // namespace symm
