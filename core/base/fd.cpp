// The only file that moves, marks and closes descriptors, and that writes to plain files. It may be
// called in a handler of fork(): it takes no lock and allocates nothing.
#include "core/base/fd.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <utility>

namespace symm {
namespace {
// Marks files that share an inode. The signal of a file without signals (F_SETSIG without
// O_ASYNC) has no effect; it is 0 unless a program sets it.
constexpr int kMark = SIGURG;

sigset_t signal_of_file_sizes() noexcept {
  sigset_t signal;
  sigemptyset(&signal);
  sigaddset(&signal, SIGXFSZ);
  return signal;
}
}  // namespace

OpenFile OpenFile::behind(int fd) noexcept {
  struct stat status{};
  if (fstat(fd, &status) != 0) return {};

  const bool shares_inode = (status.st_mode & S_IFMT) == 0;
  const int mark = shares_inode ? fcntl(fd, F_GETSIG) : 0;
  if (mark < 0) return {};
  return {status.st_dev, status.st_ino, shares_inode, mark};
}

Fd::Fd(int made) noexcept {
  if (made < 0) return;

  fd_ = made;
  if (made <= STDERR_FILENO) {
    fd_ = fcntl(made, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int error = errno == EINVAL ? EMFILE : errno;  // EINVAL: the limit is 3 or less
    ::close(made);
    errno = error;
  }
  if (fd_ < 0) return;

  file_ = OpenFile::behind(fd_);
  if (file_.shares_inode && file_.mark == 0 && fcntl(fd_, F_SETSIG, kMark) == 0) file_.mark = kMark;
}

void Fd::reset() noexcept {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0) return;

  // A file of which the kernel says nothing counts as the library's own.
  const int error = errno;
  const OpenFile unknown;
  const OpenFile now = OpenFile::behind(fd);
  const bool is_gone = now == unknown && errno == EBADF;
  if (!is_gone && (now == file_ || now == unknown || file_ == unknown)) ::close(fd);
  errno = error;
}

uint64_t file_size_limit() noexcept {
  rlimit limit{};
  const bool is_limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? limit.rlim_cur : UINT64_MAX;
}

bool has_room(int fd, size_t size) noexcept {
  const uint64_t limit = file_size_limit();
  struct stat status{};
  if (limit == UINT64_MAX || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return true;

  const bool at_end = (fcntl(fd, F_GETFL) & O_APPEND) != 0;
  const off_t start = at_end ? status.st_size : lseek(fd, 0, SEEK_CUR);
  if (start < 0 || static_cast<uint64_t>(start) + size <= limit) return true;
  errno = EFBIG;
  return false;
}

NoFileSizeSignal::NoFileSizeSignal() noexcept {
  if (file_size_limit() == UINT64_MAX) return;

  const sigset_t signal = signal_of_file_sizes();
  is_blocked_ = pthread_sigmask(SIG_BLOCK, &signal, &before_) == 0;

  sigset_t pending;
  was_pending_ = sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

// The kernel sends the signal to the thread that writes, so it is pending here and nowhere else.
NoFileSizeSignal::~NoFileSizeSignal() {
  if (!is_blocked_) return;

  const int error = errno;
  const sigset_t signal = signal_of_file_sizes();
  const timespec at_once{};
  while (!was_pending_ && sigtimedwait(&signal, nullptr, &at_once) < 0 && errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}

bool write_whole(int fd, const void* from, size_t size) noexcept {
  const NoFileSizeSignal no_signal;
  if (!has_room(fd, size)) return false;

  for (size_t done = 0; done < size;) {
    const ssize_t written = ::write(fd, static_cast<const char*>(from) + done, size - done);
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;
    if (written <= 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}
}  // namespace symm
