// Makes, names, dials and identifies sockets of ranks on one machine.
#include "core/socket/socket.hpp"

#include <fcntl.h>
#include <linux/ioctl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/closed_streams.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/hash.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/process.hpp"
#include "core/base/wait.hpp"
#include "core/socket/directory.hpp"
#include "core/socket/tcp.hpp"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // since Linux 6.5
#endif

namespace symm {
namespace {
constexpr int kBacklog = 128;

PeerFd make_socket() {
  Fd fd = make_fd(::socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (!fd) throw system_error(errno, "socket");
  return PeerFd(std::move(fd));
}

// The address of a socket. If the path is too long for one, the socket is reached through the
// descriptor of its directory. The plain path is preferred: /proc may be absent.
sockaddr_un address_of(const std::string& directory, int directory_fd, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string path = directory + "/" + name;
  if (path.size() >= sizeof address.sun_path) {
    path = format("/proc/self/fd/%d/%s", directory_fd, name.c_str());
  }
  if (path.size() >= sizeof address.sun_path) {
    throw Error(Status::system, "socket name too long: " + name);
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}
}  // namespace

Listener::Listener(const std::string& directory, std::string name)
    : directory_(open_private_directory(directory, false)),
      socket_(make_socket()),
      name_(std::move(name)),
      generation_(process::fork_generation()) {
  const sockaddr_un address = address_of(directory, directory_.get(), name_);
  if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw system_error(errno, "bind", directory + "/" + name_);
  }
  if (listen(socket_.get(), kBacklog) != 0) {
    const int error = errno;
    unlinkat(directory_.get(), name_.c_str(), 0);
    throw system_error(error, "listen");
  }
}

Listener::~Listener() {
  if (generation_ == process::fork_generation()) unlinkat(directory_.get(), name_.c_str(), 0);
}

PeerFd Listener::accept(uint64_t& refused) {
  for (;;) {
    Fd fd = make_fd(::accept4, socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (!fd) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
      if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) continue;

      // Without a free descriptor accept4() fails even if no connection waits. That is not an
      // error.
      const int error = errno;
      pollfd queue{socket_.get(), POLLIN, 0};
      if (!poll_until({&queue, 1}, Deadline::after_ms(0))) return {};
      throw system_error(error, "accept4");
    }

    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 &&
        credentials.uid == geteuid()) {
      return PeerFd(std::move(fd));
    }
    ++refused;
  }
}

PeerFd dial(const std::string& directory, const std::string& name) {
  const Fd directory_fd = open_private_directory(directory, false);
  const sockaddr_un address = address_of(directory, directory_fd.get(), name);
  PeerFd fd = make_socket();

  while (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return {};
    if (errno == ECONNREFUSED || errno == ENOENT) {
      throw Error(Status::peer_failed, "nobody listens on its socket any more");
    }
    throw system_error(errno, "connect", directory + "/" + name);
  }

  if (identify(fd.get()).uid != geteuid()) {
    throw Error(Status::unavailable, "its socket belongs to another user");
  }
  return fd;
}

// ---- the process at the other end of a socket

namespace {
// struct pidfd_info of <linux/pidfd.h>, first version (64 bytes); the system's header
// may be older than the running kernel.
struct PidfdInfo {
  uint64_t mask;
  uint64_t cgroupid;
  uint32_t ids[11];
  int32_t exit_code;
};

constexpr unsigned long kPidfdGetInfo = _IOWR(0xFF, 11, PidfdInfo);
constexpr uint64_t kPidfdInfoExit = 1U << 3;

// Opens a pidfd by the pid, for Linux before 6.5. The start time must be the same before and after,
// so that the pidfd is of one process. If the peer was reaped and its pid reused before this call,
// that cannot be noticed.
Fd open_pid(int64_t pid) {
#ifdef SYS_pidfd_open
  const auto before = process::stat_of(pid);
  if (!before) return {};
  Fd fd = make_fd(::syscall, SYS_pidfd_open, static_cast<pid_t>(pid), 0);
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
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    throw system_error(errno, "getsockopt(SO_PEERCRED)");
  }

  PeerProcess peer;
  peer.uid = credentials.uid;
  peer.pid = credentials.pid;

  const ClosedStreams held;
  int fd = -1;
  size = sizeof fd;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) {
    peer.pidfd = PeerFd(Fd(fd));
    if (!peer.pidfd) throw system_error(errno, "fcntl(F_DUPFD_CLOEXEC)");
  } else if (errno == EMFILE || errno == ENFILE) {
    throw system_error(errno, "getsockopt(SO_PEERPIDFD)");
  } else if (errno == ENOPROTOOPT && peer.pid > 0) {
    peer.pidfd = PeerFd(open_pid(peer.pid));
  }
  return peer;
}

uint64_t pid_namespace() {
  struct stat pids{};
  struct stat times{};  // there since Linux 5.6
  if (stat("/proc/self/ns/pid", &pids) != 0) return 0;
  return mix(pids.st_ino, stat("/proc/self/ns/time", &times) == 0 ? times.st_ino : 0) | 1U;
}

// The inode alone does not do: sandboxes with a kernel of their own number their namespaces alike.
uint64_t network_namespace() {
  struct stat network{};
  if (stat("/proc/self/ns/net", &network) != 0) return 0;
  return mix(mix(fnv1a(process::boot_id()), network.st_ino), fnv1a(host_name())) | 1U;
}

std::string manner_of_death(int pidfd) {
  PidfdInfo info{};
  info.mask = kPidfdInfoExit;
  if (ioctl(pidfd, kPidfdGetInfo, &info) != 0 || (info.mask & kPidfdInfoExit) == 0) return {};
  if (WIFSIGNALED(info.exit_code)) return format("killed by signal %d", WTERMSIG(info.exit_code));
  if (WIFEXITED(info.exit_code)) {
    return format("exited with status %d", WEXITSTATUS(info.exit_code));
  }
  return {};
}
}  // namespace symm
