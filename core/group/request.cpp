// How a request ends, and how a program learns of that: by a look, by a wait, or by a descriptor.
#include "core/group/request.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/wait.hpp"

namespace symm {
namespace {
// Grows with each request of this process that ends. A wait for any of several sleeps on it, since
// the kernel takes no more than kMaxSnapshots words.
Word ended_requests{0};

// The deadline of a wait for a request, whose own deadline bounds a wait that names none.
Deadline deadline_of(uint64_t timeout_ms) noexcept {
  return timeout_ms == 0 ? Deadline::never() : Deadline::after_ms(timeout_ms);
}

Error late(const char* what, const char* is_not, uint64_t timeout_ms) {
  const uint64_t waited = timeout_ms == Deadline::kNow ? 0 : timeout_ms;
  return {Status::timeout, format("%s: %s done within %lu ms", what, is_not, waited)};
}
}  // namespace

void Request::throw_if_failed() const {
  if (status() != Status::ok) throw Error(failure_);
}

void Request::wait(uint64_t timeout_ms) const {
  const auto look = [this] { return is_done(); };
  if (!await_change(done_, deadline_of(timeout_ms), look)) {
    throw late("request", format("the %s is not", call_).c_str(), timeout_ms);
  }
  throw_if_failed();
}

std::optional<size_t> Request::first_done(
    std::span<const std::shared_ptr<Request>> requests) noexcept {
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i] != nullptr && requests[i]->is_done()) return i;
  }
  return std::nullopt;
}

size_t Request::wait_any(std::span<const std::shared_ptr<Request>> requests, uint64_t timeout_ms) {
  std::optional<size_t> found;
  const auto look = [&] {
    found = first_done(requests);
    return found.has_value();
  };
  if (!await_change(ended_requests, deadline_of(timeout_ms), look)) {
    throw late("requests", format("none of the %zu is", requests.size()).c_str(), timeout_ms);
  }
  return *found;
}

int Request::fd() {
  const std::lock_guard lock(fd_mutex_);
  if (fd_) return fd_.get();
  Fd made = make_fd(eventfd, 0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (!made) throw system_error(errno, "eventfd");
  fd_ = PeerFd(std::move(made));
  // Whoever ends the request writes under this lock, and after done_.
  if (is_done()) tell();
  return fd_.get();
}

// A write that fails finds the descriptor readable already.
void Request::tell() noexcept {
  const uint64_t one = 1;
  if (fd_ && ::write(fd_.get(), &one, sizeof one) < 0) return;
}

void Request::run(Work& work, const Ending& ending) noexcept {
  try {
    value_ = work();
  } catch (...) {
    failure_ = current_failure();
  }
  work = nullptr;

  ending.before_it_is_done();
  done_.store(1, std::memory_order_release);
  ending.before_it_is_told();
  wake_all(done_);
  tell_change(ended_requests);
  const std::lock_guard lock(fd_mutex_);
  tell();
}
}  // namespace symm
