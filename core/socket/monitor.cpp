// SPDX-License-Identifier: Apache-2.0
#include "core/socket/monitor.hpp"

#include <sys/epoll.h>

#include <array>
#include <cerrno>

#include "core/base/error.hpp"
#include "core/base/log.hpp"
#include "core/base/process.hpp"

namespace symm {

Monitor& Monitor::current() { return PerProcess<Monitor>::current(); }

Monitor::Monitor() : epoll_(Fd(epoll_create1(EPOLL_CLOEXEC))) {
  if (!epoll_) throw system_error(errno, "epoll_create1");
  process::start_thread("symm-monitor", [this] { run(); });
}

uint64_t Monitor::watch(int fd, std::weak_ptr<Watched> watched) {
  const std::lock_guard lock(mutex_);
  const uint64_t number = ++last_;
  entries_.emplace(number, Entry{fd, std::move(watched)});
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = number;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    const int error = errno;
    entries_.erase(number);
    throw system_error(error, "epoll_ctl");
  }
  return number;
}

void Monitor::forget(uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(number);
  if (found == entries_.end()) return;
  epoll_event none{};
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.fd, &none);
  entries_.erase(found);
}

void Monitor::run() noexcept {
  log::deliver_elsewhere();
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno != EINTR) {
      log::write(log::Level::error, "monitor: epoll_wait: errno %d; deaths of peers will go unnoticed until a deadline passes",
                 errno);
      return;
    }
    for (int i = 0; i < count; ++i) {
      int fd = -1;
      std::shared_ptr<Watched> watched;
      {
        const std::lock_guard lock(mutex_);
        const auto found = entries_.find(events[static_cast<size_t>(i)].data.u64);
        if (found == entries_.end()) continue;
        fd = found->second.fd;
        watched = found->second.watched.lock();
      }
      if (watched) watched->ready(fd);
    }
  }
}

}  // namespace symm
