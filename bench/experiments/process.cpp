// SPDX-License-Identifier: Apache-2.0
#include "bench/experiments/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstring>
#include <mutex>
#include <vector>

#include "tests/gpu/world.hpp"

namespace experiments {
namespace {

// What the process of a question sends to the first one.
struct Order {
  enum Kind {
    start,
    totals
  } kind;
  char role[32];
  int64_t argument;
  Totals counted;
};

bool send_bytes(int socket, const void* bytes, size_t size, int fd) {
  iovec part{const_cast<void*>(bytes), size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

bool receive_bytes(int socket, void* bytes, size_t size, Descriptor& fd) {
  iovec part{bytes, size};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(size)) return false;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int got = -1;
    std::memcpy(&got, CMSG_DATA(header), sizeof got);
    fd = Descriptor(got);
  }
  return true;
}

struct Started {
  support::Process process;
  Descriptor pidfd;
};

Started start(const char* kind, const char* name, int64_t argument, int socket) {
  support::Process process([&] {
    // A descriptor that is 3 already would keep its close-on-exec flag.
    if ((socket == kSocket ? fcntl(socket, F_SETFD, 0) : dup2(socket, kSocket)) < 0) std::_Exit(126);
    support::run_again({kind, name, std::to_string(argument)});
  });
  Descriptor pidfd(static_cast<int>(syscall(SYS_pidfd_open, process.pid(), 0)));
  if (!pidfd) gpu::give_up("pidfd_open");
  return {std::move(process), std::move(pidfd)};
}

}  // namespace

bool is_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

void send_message(int socket, int64_t value, int fd) { send_bytes(socket, &value, sizeof value, fd); }

std::optional<Message> receive_message(int socket) {
  pollfd entry{socket, POLLIN, 0};
  if (poll(&entry, 1, 20'000) != 1) gpu::give_up("a process does not answer");
  Message message;
  if (!receive_bytes(socket, &message.value, sizeof message.value, message.fd)) return std::nullopt;
  return message;
}

Message expect_message(int socket, const char* what) {
  std::optional<Message> message = receive_message(socket);
  if (!message) gpu::give_up(std::string("a process ended before its time: ") + what);
  return std::move(*message);
}

Child::Child(const std::string& role, int64_t argument) {
  static std::mutex mutex;  // orders and their answers go by pairs
  const std::lock_guard lock(mutex);
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) gpu::give_up("socketpair");
  socket_ = Descriptor(pair[0]);
  const Descriptor theirs(pair[1]);
  Order order{Order::start, {}, argument, {}};
  role.copy(order.role, sizeof order.role - 1);
  if (!send_bytes(kSocket, &order, sizeof order, theirs.get())) gpu::give_up("nobody starts processes");
  pidfd_ = std::move(expect_message(kSocket, "a pidfd").fd);
}

void Child::kill() const {
  if (syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0) != 0) gpu::give_up("pidfd_send_signal");
}

void Child::await_death() const {
  if (!eventually([&] { return is_readable(pidfd_.get()); })) gpu::give_up("a killed process does not end");
}

Totals run_question(const std::string& question, int64_t argument, std::chrono::seconds limit) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) gpu::give_up("socketpair");
  const Descriptor mine(pair[0]);
  Descriptor theirs(pair[1]);
  std::vector<Started> processes;
  processes.push_back(start("question", question.c_str(), argument, theirs.get()));
  theirs.reset();

  std::optional<Totals> counted;
  const auto end = Clock::now() + limit;
  while (Clock::now() < end) {  // or until the question has closed its socket, which ends with it
    pollfd entry{mine.get(), POLLIN, 0};
    if (poll(&entry, 1, 100) != 1) continue;
    Order order{};
    Descriptor socket;
    if (!receive_bytes(mine.get(), &order, sizeof order, socket)) break;
    if (order.kind == Order::totals) {
      counted = order.counted;
      continue;
    }
    processes.push_back(start("role", order.role, order.argument, socket.get()));
    socket.reset();  // before anybody is told: its end is to be open in the process alone
    send_message(mine.get(), processes.back().process.pid(), processes.back().pidfd.get());
  }
  const bool in_time = processes[0].process.reap(Clock::now() < end ? 10'000 : 0);
  const int status = processes[0].process.wait();
  processes.clear();  // kills those that are left
  if (!in_time) std::printf("FAILED: %s: still running after %d s\n", question.c_str(), static_cast<int>(limit.count()));
  Totals totals = counted.value_or(Totals{});
  if (!counted || !in_time || !WIFEXITED(status) || WEXITSTATUS(status) != (totals.failed == 0 ? 0 : 1)) {
    std::printf("FAILED: %s: ended with status %d\n", question.c_str(), status);
    ++totals.failed;
  }
  return totals;
}

void report_totals(Totals totals) {
  const Order order{Order::totals, {}, 0, totals};
  send_bytes(kSocket, &order, sizeof order, -1);
}

}  // namespace experiments
