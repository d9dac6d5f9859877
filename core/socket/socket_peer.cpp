// Who is at the other end of a socket, and what became of them.
#include <linux/ioctl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <cerrno>
#include "core/base/error.hpp"
#include "core/base/hash.hpp"
#include "core/base/process.hpp"
#include "core/socket/socket.hpp"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // since Linux 6.5
#endif

namespace symm {
namespace {
// struct pidfd_info of <linux/pidfd.h>, first version (64 bytes); the system's header may be older than the running kernel.
struct PidfdInfo {
  uint64_t mask;
  uint64_t cgroupid;
  uint32_t ids[11];
  int32_t exit_code;
};
constexpr unsigned long kPidfdGetInfo = _IOWR(0xFF, 11, PidfdInfo);
constexpr uint64_t kPidfdInfoExit = 1U << 3;

// Before Linux 6.5 the pid must do. It may have been reused since the peer connected; that can only be told while it has not been
// reaped, so the start time must be the same before and after.
Fd open_pid(int64_t pid) {
#ifdef SYS_pidfd_open
  const auto before = process::stat_of(pid);
  if (!before) return {};
  Fd fd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
  const auto after = process::stat_of(pid);
  if (fd && after && after->start == before->start) return fd;
#else
  (void)pid;
#endif
  return {};
}
}  // namespace

PeerProcess identify(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) throw system_error(errno, "getsockopt(SO_PEERCRED)");
  PeerProcess peer;
  peer.uid = credentials.uid;
  peer.pid = credentials.pid;
  int fd = -1;
  size = sizeof fd;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) peer.pidfd = PeerFd(Fd(fd));
  else if (errno == EMFILE || errno == ENFILE) throw system_error(errno, "getsockopt(SO_PEERPIDFD)");
  else if (errno == ENOPROTOOPT && peer.pid > 0) peer.pidfd = PeerFd(open_pid(peer.pid));
  return peer;
}

uint64_t pid_namespace() {
  struct stat pids {};
  struct stat times {};  // Linux 5.6
  if (stat("/proc/self/ns/pid", &pids) != 0) return 0;
  return mix(pids.st_ino, stat("/proc/self/ns/time", &times) == 0 ? times.st_ino : 0) | 1U;
}

std::string manner_of_death(int pidfd) {
  PidfdInfo info{};
  info.mask = kPidfdInfoExit;
  if (ioctl(pidfd, kPidfdGetInfo, &info) != 0 || (info.mask & kPidfdInfoExit) == 0) return {};
  if (WIFSIGNALED(info.exit_code)) return format("killed by signal %d", WTERMSIG(info.exit_code));
  if (WIFEXITED(info.exit_code)) return format("exited with status %d", WEXITSTATUS(info.exit_code));
  return {};
}
}  // namespace symm
