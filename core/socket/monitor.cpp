// The thread that sleeps on all sockets and pidfds of the library, and calls whoever watches
// one. A watcher must not wait there.
#include "core/socket/monitor.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

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
#include "core/base/wait.hpp"

namespace symm {
Monitor& Monitor::current() { return PerProcess<Monitor>::current(); }

namespace {
// The number of the question, which is not a watch: the numbers of watches begin at 1.
constexpr uint64_t kQuestion = 0;
}  // namespace

Monitor::Monitor()
    : epoll_(make_fd(epoll_create1, EPOLL_CLOEXEC)),
      question_(make_fd(eventfd, 0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_) throw system_error(errno, "epoll_create1");
  if (!question_) throw system_error(errno, "eventfd");

  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kQuestion;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, question_.get(), &event) != 0) {
    throw system_error(errno, "epoll_ctl");
  }
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
  // The descriptor is watched, and a change of its events takes no memory: this cannot fail.
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

void Monitor::catch_up() noexcept {
  constexpr uint64_t kPatienceMs = 1'000;
  const uint32_t number = ++asked_;
  const uint64_t one = 1;
  if (write(question_.get(), &one, sizeof one) != sizeof one) return;  // closed by the program

  const auto is_answered = [&] { return static_cast<int32_t>(answered_.load() - number) >= 0; };
  (void)await_change(answered_, Deadline::after_ms(kPatienceMs), is_answered);
}

// The question lies behind what was ready before it, which the kernel may hand out in several
// pieces. So the thread answers when nothing is ready any more, or has been so often.
void Monitor::answer() noexcept {
  constexpr int kMostRounds = 64;
  uint64_t count = 0;
  (void)!read(question_.get(), &count, sizeof count);
  is_asked_ = false;

  const uint32_t number = asked_;
  for (int round = 0; round < kMostRounds && read_once(0) > 0; ++round) {
  }
  answered_.store(number);
  wake_all(answered_);
}

// Returns the number of descriptors that were ready; -1: none can be asked any more.
int Monitor::read_once(int timeout_ms) noexcept {
  std::array<epoll_event, 64> events;
  const int count =
      epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  if (count < 0) return errno == EINTR ? 0 : -1;

  for (int i = 0; i < count; ++i) {
    const uint64_t number = events[static_cast<size_t>(i)].data.u64;
    if (number == kQuestion) {
      is_asked_ = true;
    } else {
      call(number);
    }
  }
  return count;
}

void Monitor::run() noexcept {
  log::deliver_elsewhere();

  // The kernel does not wake the thread when the program closes the descriptor of epoll, so the
  // thread looks every two seconds.
  constexpr int kDescriptorLookMs = 2'000;
  while (read_once(kDescriptorLookMs) >= 0) {
    if (is_asked_) answer();
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
