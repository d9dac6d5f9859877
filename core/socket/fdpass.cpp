// One packet with descriptors, by sendmsg() and recvmsg(). Nothing here waits, and no
// descriptor is lost.
#include "core/socket/fdpass.hpp"

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "core/base/closed_streams.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"

namespace symm::fdpass {
namespace {
union Control {
  cmsghdr alignment;
  char bytes[CMSG_SPACE(sizeof(int) * kMaxFds)];
};

// Takes the descriptors of all control messages: the buffer's padding has room for one more
// descriptor than kMaxFds, and a descriptor that is overlooked would leak. Returns false if one was
// lost, because this process can open no more.
bool take_fds(msghdr& message, std::vector<Fd>& fds) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return std::erase_if(fds, [](const Fd& fd) { return !fd; }) == 0;
}

// Whether the next packet has descriptors: a look at it that has no room for them says that it cut
// something off, and makes none.
bool brings_fds(int socket) noexcept {
  msghdr message{};
  ssize_t size = -1;
  do {
    size = recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);
  } while (size < 0 && (errno == EINTR || errno == ECONNRESET));  // as receive() does
  return size >= 0 && (message.msg_flags & MSG_CTRUNC) != 0;
}
}  // namespace

Sent send(int socket, std::span<const std::byte> packet, std::span<const int> fds) {
  if (fds.size() > kMaxFds) {
    throw Error(Status::invalid_argument, "too many descriptors for one message");
  }

  iovec part{const_cast<std::byte*>(packet.data()), packet.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  Control control{};
  if (!fds.empty()) {
    message.msg_control = control.bytes;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }

  for (;;) {
    if (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return Sent::done;
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Sent::would_block;
    if (errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM) return Sent::crowded;
    if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN || errno == ECONNREFUSED) {
      return Sent::closed;
    }
    throw system_error(errno, "sendmsg");
  }
}

Received receive(int socket, std::span<std::byte> buffer) {
  // Room for descriptors is made before any has come: if there is no memory, none is lost.
  Received result;
  result.fds.reserve(kMaxFds + 1);
  // Packets come at any time. So the numbers of closed streams are held only for those that bring
  // descriptors, for the program may be about to open its streams again.
  std::optional<ClosedStreams> held;
  if (ClosedStreams::is_any_closed() && brings_fds(socket)) held.emplace();

  Control control;
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  ssize_t size = -1;
  do {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    // ECONNRESET: the peer closed its end with packets of this one unread. The kernel says so
    // once; the packets that the peer had sent come after that.
  } while (size < 0 && (errno == EINTR || errno == ECONNRESET));
  if (size < 0) {
    if (is_momentary(errno)) return result;
    if (errno == ENOTCONN || errno == EPIPE) {
      result.what = Received::What::closed;
      return result;
    }
    throw system_error(errno, "recvmsg");
  }

  const bool whole = take_fds(message, result.fds);
  result.fds_arrived = result.fds.size();
  result.too_long = (message.msg_flags & MSG_TRUNC) != 0;
  result.fds_cut = !whole || (message.msg_flags & MSG_CTRUNC) != 0;
  result.size = static_cast<size_t>(size);

  // A packet of no bytes looks like the end of the connection, and no rank sends one.
  result.what = size == 0 ? Received::What::closed : Received::What::packet;
  if (size == 0 || result.too_long || result.fds_cut) result.fds.clear();
  return result;
}
}  // namespace symm::fdpass
