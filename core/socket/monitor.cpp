// SPDX-License-Identifier: Apache-2.0
#include "core/socket/monitor.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>

#include <array>
#include <cerrno>

#include "core/base/error.hpp"
#include "core/base/log.hpp"

namespace symm {

Monitor& Monitor::current() { return PerProcess<Monitor>::current(); }

Monitor::Monitor() : epoll_(Fd(epoll_create1(EPOLL_CLOEXEC))) {
  if (!epoll_) throw system_error(errno, "epoll_create1");
  // Signals are for the program's own threads. The mask is inherited, so it is set around the creation.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  const int error = pthread_create(
      &thread, &attributes,
      [](void* self) -> void* {
        pthread_setname_np(pthread_self(), "symm-monitor");
        static_cast<Monitor*>(self)->run();
        return nullptr;
      },
      this);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) throw system_error(error, "pthread_create");
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
