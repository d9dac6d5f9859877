// The thread that sleeps on all sockets and pidfds of the library, and calls whoever watches
// one. A watcher must not wait there.
#include "core/socket/monitor.hpp"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/log.hpp"
#include "core/base/per_process.hpp"
#include "core/base/process.hpp"

namespace symm {
Monitor& Monitor::current() { return PerProcess<Monitor>::current(); }

Monitor::Monitor() : epoll_(Fd(epoll_create1(EPOLL_CLOEXEC))) {
  if (!epoll_) throw system_error(errno, "epoll_create1");
  process::start_thread("symm-monitor", [this] { run(); });
}

uint64_t Monitor::watch(int fd, std::weak_ptr<Watched> watched) {
  SYMM_POINT("monitor.watch");
  const std::lock_guard lock(mutex_);
  const uint64_t number = ++last_;
  watches_.emplace(number, Watch{fd, std::move(watched)});

  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = number;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    const int error = errno;
    watches_.erase(number);
    throw system_error(error, "epoll_ctl");
  }
  return number;
}

void Monitor::want_writable(uint64_t number, bool wanted) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = watches_.find(number);
  if (found == watches_.end()) return;
  epoll_event event{};
  event.events = EPOLLIN | (wanted ? EPOLLOUT : 0U);
  event.data.u64 = number;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second.fd, &event);
}

void Monitor::forget(uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = watches_.find(number);
  if (found == watches_.end()) return;
  epoll_event none{};
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.fd, &none);
  watches_.erase(found);
}

void Monitor::run() noexcept {
  log::deliver_elsewhere();

  // The kernel wakes nobody when the program closes the descriptor of epoll, so the thread looks
  // every two seconds.
  constexpr int kLookMs = 2'000;
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count =
        epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), kLookMs);
    if (count < 0 && errno != EINTR) break;
    for (int i = 0; i < count; ++i) {
      call(events[static_cast<size_t>(i)].data.u64);
    }
  }
  log::write(log::Level::error,
      "monitor: epoll_wait: errno %d; has the program closed descriptors that it did not open?",
      errno);

  // The watched objects find that their own descriptors are closed, too.
  for (uint64_t number = 1; number <= last_; ++number) {
    call(number);
  }
}

void Monitor::call(uint64_t number) {
  std::unique_lock lock(mutex_);
  const auto found = watches_.find(number);
  if (found == watches_.end()) return;
  const int fd = found->second.fd;
  const std::shared_ptr<Watched> watched = found->second.watched.lock();
  lock.unlock();
  if (watched) watched->ready(fd);
}
}  // namespace symm
