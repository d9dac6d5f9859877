// Options and a timer by which a silent TCP connection is noticed.
#include "core/socket/keepalive.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <ctime>

#include "core/base/deadline.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/page.hpp"
#include "core/base/peer_fd.hpp"
#include "core/socket/tcp.hpp"

namespace symm {
void Keepalive::start() {
  if (!enabled()) return;

  heard_ns_ = now_ns();
  due_ = Deadline::after_ms(silence_ms_);
  timer_ = PeerFd(make_fd(timerfd_create, CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_) throw system_error(errno, "timerfd_create");

  const timespec interval = to_timespec(nanoseconds_of(interval_ms()));
  const itimerspec times{interval, interval};
  timerfd_settime(timer_.get(), 0, &times, nullptr);
}

void Keepalive::configure(int socket) const noexcept {
  if (!enabled()) return;
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT,
      static_cast<int>(std::min<uint64_t>(silence_ms_, INT_MAX)));
}

uint64_t Keepalive::read_timer() noexcept {
  uint64_t turns = 0;
  return ::read(timer_.get(), &turns, sizeof turns) == sizeof turns ? turns : 0;
}

bool Keepalive::answered(int socket, uint64_t turns) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size);

  // The time since the last acknowledgement, by the kernel.
  const uint64_t heard_ns = now_ns() - nanoseconds_of(info.tcpi_last_ack_recv);
  if (heard_ns > heard_ns_) heard_ns_ = heard_ns;

  const uint64_t waited_ms = silence_ms_ - std::min(silence_ms_, due_.remaining_ns() / 1'000'000);
  if (turns > 4 || info.tcpi_unacked == 0 || info.tcpi_last_ack_recv < waited_ms) {
    due_ = Deadline::after_ms(silence_ms_);
  }
  return !due_.expired();
}
}  // namespace symm
