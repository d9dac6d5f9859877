#include "core/socket/socket.hpp"
#include <sys/socket.h>
#include <sys/un.h>
#include <cerrno>
#include <cstring>
#include "core/base/error.hpp"
#include "core/base/process.hpp"
#include "core/base/wait.hpp"
#include "core/socket/directory.hpp"

namespace symm {
namespace {
constexpr int kBacklog = 128;

PeerFd make_socket() {
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) throw system_error(errno, "socket");
  return PeerFd(std::move(fd));
}

// A path too long for a socket address is reached through the descriptor of its directory. The plain path is preferred: /proc may
// be absent.
sockaddr_un address_of(const std::string& directory, int directory_fd, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string path = directory + "/" + name;
  if (path.size() >= sizeof address.sun_path) path = format("/proc/self/fd/%d/%s", directory_fd, name.c_str());
  if (path.size() >= sizeof address.sun_path) throw Error(Status::system, "socket name too long: " + name);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}
}  // namespace

Listener::Listener(const std::string& directory, std::string name)
    : directory_(open_private_directory(directory, false)), socket_(make_socket()), name_(std::move(name)),
      generation_(process::fork_generation()) {
  const sockaddr_un address = address_of(directory, directory_.get(), name_);
  if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw system_error(errno, "bind", directory + "/" + name_);
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
    Fd fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
      if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) continue;
      const int error = errno;
      pollfd queue{socket_.get(), POLLIN, 0};  // a descriptor is wanted before anybody is looked for
      if (!poll_until({&queue, 1}, Deadline::after_ms(0))) return {};
      throw system_error(error, "accept4");
    }
    ucred credentials{};
    socklen_t size = sizeof credentials;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 && credentials.uid == geteuid())
      return PeerFd(std::move(fd));
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
    if (errno == ECONNREFUSED || errno == ENOENT) throw Error(Status::peer_failed, "nobody listens on its socket any more");
    throw system_error(errno, "connect", directory + "/" + name);
  }
  if (identify(fd.get()).uid != geteuid()) throw Error(Status::unavailable, "its socket belongs to another user");
  return fd;
}
}  // namespace symm
