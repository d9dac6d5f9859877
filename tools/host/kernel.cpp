#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <cerrno>
#include <cstring>
#include "tools/host/host.hpp"
#include "tools/unique_fd.hpp"

namespace symm::tool {
namespace {
// Younger than the C library's headers may be.
constexpr int so_peerpidfd = 77;
constexpr long nr_pidfd_open = 434;
constexpr long nr_futex_waitv = 449;

Feature missing(std::string name, const char* call) {
  return {std::move(name), false, std::string(call) + ": " + std::strerror(errno)};
}
}  // namespace

std::string kernel_release() {
  utsname name{};
  return ::uname(&name) == 0 ? std::string(name.sysname) + " " + name.release + " " + name.machine : "unknown";
}

Feature memfd_with_seals() {
  const std::string title = "memfd with seals";
  const UniqueFd fd(::memfd_create("symm-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return missing(title, "memfd_create");
  if (::ftruncate(fd.get(), 1 << 20) != 0) return missing(title, "ftruncate");
  if (::fallocate(fd.get(), 0, 0, 1 << 20) != 0) return missing(title, "fallocate");
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return missing(title, "fcntl(F_ADD_SEALS)");
  if (::ftruncate(fd.get(), 0) == 0) return {title, false, "a sealed file could be truncated"};
  void* mapped = ::mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) return missing(title, "mmap");
  ::munmap(mapped, 1 << 20);
  return {title, true, ""};
}

Feature pidfd() {
  const UniqueFd fd(static_cast<int>(::syscall(nr_pidfd_open, ::getpid(), 0)));
  return fd ? Feature{"pidfd_open", true, ""} : missing("pidfd_open", "pidfd_open");
}

Feature peer_pidfd() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return missing("SO_PEERPIDFD", "socketpair");
  const UniqueFd first(ends[0]);
  const UniqueFd second(ends[1]);
  int fd = -1;
  socklen_t size = sizeof fd;
  if (::getsockopt(first.get(), SOL_SOCKET, so_peerpidfd, &fd, &size) != 0) return missing("SO_PEERPIDFD", "getsockopt");
  const UniqueFd owner(fd);
  return {"SO_PEERPIDFD", true, ""};
}

Feature futex_waitv() {
  // With no word to wait for it fails at once: EINVAL where it exists, ENOSYS where it does not, EPERM where a filter forbids it.
  ::syscall(nr_futex_waitv, nullptr, 0, 0, nullptr, 0);
  return errno == EINVAL ? Feature{"futex_waitv", true, ""} : missing("futex_waitv", "futex_waitv");
}

std::vector<Feature> kernel_features() { return {memfd_with_seals(), pidfd(), peer_pidfd(), futex_waitv()}; }
}  // namespace symm::tool
