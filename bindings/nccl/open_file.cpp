#include "bindings/nccl/open_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace symm::nccl {
int open_file(const char* path, int flags) noexcept {
  // The kernel gives out the lowest free number. What takes the streams' can be neither read nor
  // written: both fail by EBADF, as on a closed stream.
  bool is_held[STDERR_FILENO + 1] = {};
  int made = open("/", O_PATH | O_CLOEXEC);
  for (; made >= 0 && made <= STDERR_FILENO; made = open("/", O_PATH | O_CLOEXEC)) {
    is_held[made] = true;
  }
  if (made >= 0) close(made);

  int fd = open(path, flags | O_CLOEXEC, 0600);
  if (fd >= 0 && fd <= STDERR_FILENO) {  // closed during this call
    const int low = fd;
    fd = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(low);
  }

  const int error = errno;
  for (int stream = 0; stream <= STDERR_FILENO; ++stream) {
    // The program may have opened its stream meanwhile.
    const int now = is_held[stream] ? fcntl(stream, F_GETFL) : -1;
    if (now >= 0 && (now & O_PATH) != 0) close(stream);
  }
  errno = error;
  return fd;
}

void write_once(int fd, const char* bytes, unsigned long size) noexcept {
  rlimit limit{};
  struct stat status{};
  const bool is_limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
                          fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  if (is_limited && static_cast<uint64_t>(status.st_size) + size > limit.rlim_cur) return;
  const ssize_t written = write(fd, bytes, size);
  static_cast<void>(written);
}
}  // namespace symm::nccl
