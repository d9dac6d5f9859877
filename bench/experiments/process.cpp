#include "bench/experiments/process.hpp"
#include <poll.h>
#include "core/socket/fdpass.hpp"
#include "tests/gpu/world.hpp"

namespace experiments {
bool is_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

void send_message(int socket, int fd) {
  constexpr std::byte kSomething{1};
  symm::fdpass::send(socket, {&kSomething, 1}, {&fd, fd < 0 ? 0U : 1U});
}

std::optional<symm::Fd> receive_message(int socket) {
  if (!eventually([&] { return is_readable(socket); }, 20'000)) gpu::give_up("a process does not answer");
  std::byte something{};
  symm::fdpass::Received got = symm::fdpass::receive(socket, {&something, 1});
  if (got.what != symm::fdpass::Received::What::packet) return std::nullopt;
  return got.fds.empty() ? symm::Fd() : std::move(got.fds[0]);
}

symm::Fd expect_message(int socket, const char* what) {
  std::optional<symm::Fd> fd = receive_message(socket);
  if (!fd) gpu::give_up(std::string("a process ended before its time: ") + what);
  return std::move(*fd);
}

Child::Child(const char* role, long argument) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) gpu::give_up("socketpair");
  socket_ = symm::Fd(pair[0]);
  const symm::Fd theirs(pair[1]);
  process_.emplace([&] {
    // A descriptor that is 3 already would keep its close-on-exec flag.
    if ((theirs.get() == kSocket ? fcntl(kSocket, F_SETFD, 0) : dup2(theirs.get(), kSocket)) < 0) std::_Exit(126);
    syscall(SYS_close_range, kSocket + 1, ~0U, 0);
    support::run_again({"role", role, std::to_string(argument)});
  });
  pidfd_ = symm::Fd(static_cast<int>(syscall(SYS_pidfd_open, process_->pid(), 0)));
  if (!pidfd_) gpu::give_up("pidfd_open");
}

void Child::await_death() const {
  if (!eventually([&] { return is_readable(pidfd()); })) gpu::give_up("a killed process does not end");
}
}  // namespace experiments
