// The listeners of messages and the calls of them. A thread that others depend on hands its
// messages to another thread. Nothing is written with a lock held.
#include "core/base/log.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/background_tasks.hpp"
#include "core/base/deadline.hpp"
#include "core/base/environment.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/futex.hpp"
#include "core/base/peer_fd.hpp"
#include "core/base/per_process.hpp"
#include "core/base/poll.hpp"
#include "core/base/process.hpp"
#include "core/base/text.hpp"

namespace symm::log {
namespace {
// Bytes of a message: it has room for that of any failure. symm.h promises that a line has at most
// 4096 bytes, which a pipe takes as a whole (PIPE_BUF).
constexpr size_t kMaxMessage = 1023;
constexpr const char* kNames[] = {"error", "warning", "info", "debug"};

const char* level_name(Level level) {
  return kNames[std::clamp(static_cast<int>(level), 1, 4) - 1];
}

struct Listener {
  Callback callback = nullptr;  // null: messages go to the descriptor
  void* user = nullptr;
  PeerFd fd;
  Level level{};
  uint64_t id = 0;
  std::atomic<bool> removed{false};
  Word running{0};  // the number of threads that are inside the listener
};

// The listener that the calling thread is inside.
thread_local const Listener* inside = nullptr;

// No lock is held while a listener runs: a thread that delivers holds the list as it was.
struct Listeners {
  using List = std::vector<std::shared_ptr<Listener>>;
  std::mutex mutex;
  std::shared_ptr<const List> list = std::make_shared<const List>();
  uint64_t next = 1;
};

using ListenersOfProcess = PerProcess<Listeners>;

void write_line(int fd, const char* prefix, const char* message);

// A level that is not known counts as info, and the log says so.
Level level_named(const char* name) {
  for (int i = 0; i < static_cast<int>(std::size(kNames)); ++i) {
    if (std::strcmp(name, kNames[i]) == 0) return static_cast<Level>(i + 1);
  }

  const std::string told =
      format("SYMM_LOG: '%s' is none of error, warning, info and debug; it counts as info",
          printable(name).c_str());
  write_line(STDERR_FILENO, "symm", told.c_str());
  return Level::info;
}

int level_of_environment() {
  static const int level = [] {
    const char* const name = environment("SYMM_LOG");
    return *name == '\0' ? 0 : static_cast<int>(level_named(name));
  }();
  return level;
}

std::atomic<int>& threshold() {
  static std::atomic<int> value{level_of_environment()};
  return value;
}

void replace(Listeners& all, std::shared_ptr<const Listeners::List> list) {
  int finest = level_of_environment();
  for (const auto& listener : *list) {
    finest = std::max(finest, static_cast<int>(listener->level));
  }
  threshold() = finest;
  all.list = std::move(list);
}

uint64_t add(std::shared_ptr<Listener> listener) {
  Listeners& all = ListenersOfProcess::current();
  const std::lock_guard lock(all.mutex);
  auto list = std::make_shared<Listeners::List>(*all.list);

  const uint64_t id = all.next++;
  listener->id = id;
  list->push_back(std::move(listener));
  replace(all, std::move(list));
  return id;
}

std::shared_ptr<const Listeners::List> current_listeners() {
  Listeners& all = ListenersOfProcess::current();
  const std::lock_guard lock(all.mutex);
  return all.list;
}

// Never blocks, whatever the descriptor is: a reader that does not keep up loses lines. It writes
// with one call, so that lines of several ranks do not mix.
void write_line(int fd, const char* prefix, const char* message) {
  pollfd writable{fd, POLLOUT, 0};
  if (!poll_until({&writable, 1}, Deadline::after_ms(0)) || writable.revents != POLLOUT) return;

  char line[kMaxMessage + 16];
  const int length = std::snprintf(line, sizeof line, "%s: %s\n", prefix, message);
  if (length <= 0) return;
  const iovec whole{line, static_cast<size_t>(length)};
  const NoFileSizeSignal no_signal;
  if (!has_room(fd, whole.iov_len)) return;

  // Other writers may have filled the pipe since poll().
  if (pwritev2(fd, &whole, 1, -1, RWF_NOWAIT) >= 0) return;
  struct stat status{};
  const bool never_full = errno != EAGAIN || (fstat(fd, &status) == 0 && S_ISREG(status.st_mode));
  if (never_full && ::write(fd, line, whole.iov_len) < 0) return;
}

// Calls one listener. `running` counts the threads inside, since remove_listener() returns when
// no other thread is inside; `inside` tells a listener that removes itself from one that would
// wait for itself.
void deliver(Listener& to, Level level, const char* message) {
  if (level > to.level) return;

  const Listener* outer = std::exchange(inside, &to);
  to.running.fetch_add(1);

  if (!to.removed.load()) {
    if (to.callback != nullptr) {
      to.callback(to.user, static_cast<int32_t>(level), message);
    } else {
      write_line(to.fd.get(), level_name(level), message);
    }
  }

  to.running.fetch_sub(1);
  wake_all(to.running);
  inside = outer;
}

void deliver(Level level, const char* message) noexcept {
  try {
    // Kept while listeners run: a listener that removes itself may hold the last use of the list.
    const auto all = current_listeners();
    for (const auto& listener : *all) {
      deliver(*listener, level, message);
    }

    if (static_cast<int>(level) <= level_of_environment()) {
      write_line(STDERR_FILENO, "symm", message);
    }
  } catch (const std::exception&) {
    // Out of memory: the message is lost.
  }
}

// Delivers, on a thread that may wait, the messages of threads that must not.
struct LogDelivery {
  static constexpr size_t kMaxQueued = 1024;
  BackgroundTasks tasks{"symm-log"};
  std::atomic<uint64_t> lost{0};

  void take(Level level, std::string message) {
    std::function<void()> task = [this, level, message = std::move(message)] {
      deliver(level, message.c_str());
      if (const uint64_t count = lost.exchange(0); count != 0) {
        write(Level::warning, "%lu messages were lost", count);
      }
    };
    if (!tasks.run(task, kMaxQueued)) ++lost;
  }
};

thread_local bool elsewhere = false;
}  // namespace

void deliver_elsewhere() noexcept { elsewhere = true; }

uint64_t add_listener(Callback callback, void* user, Level level) {
  const auto listener = std::make_shared<Listener>();
  listener->callback = callback;
  listener->user = user;
  listener->level = level;
  return add(listener);
}

uint64_t add_descriptor(int fd, Level level) {
  const auto listener = std::make_shared<Listener>();

  Fd copy(fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!copy && errno == EBADF) {
    throw Error(Status::invalid_argument, format("fd: %d is not open", fd));
  }
  if (!copy) throw system_error(errno, "fcntl(F_DUPFD_CLOEXEC)", "fd");

  listener->fd = PeerFd(std::move(copy));
  listener->level = level;
  return add(listener);
}

void remove_listener(uint64_t id) {
  constexpr uint64_t kTimeoutMs = 60'000;
  Listeners& all = ListenersOfProcess::current();
  std::shared_ptr<Listener> removed;
  {
    const std::lock_guard lock(all.mutex);
    auto list = std::make_shared<Listeners::List>(*all.list);
    const auto found = std::find_if(
        list->begin(), list->end(), [id](const auto& listener) { return listener->id == id; });
    if (found == list->end()) throw Error(Status::not_found, "no such listener");
    removed = *found;
    list->erase(found);
    replace(all, std::move(list));
  }
  removed->removed.store(true);

  // Wait until no other thread is inside the listener.
  const Deadline deadline = Deadline::after_ms(kTimeoutMs);
  const uint32_t own = inside == removed.get() ? 1 : 0;
  for (;;) {
    const uint32_t running = removed->running.load();
    if (running <= own) return;
    if (deadline.expired()) {
      throw Error(Status::timeout, "the listener did not return from its last message");
    }
    sleep_while(removed->running, running, nullptr, 0, deadline);
  }
}

bool enabled(Level level) noexcept {
  return static_cast<int>(level) <= threshold().load(std::memory_order_relaxed);
}

void write(Level level, const char* pattern, ...) noexcept {
  if (!enabled(level)) return;
  const process::Uncancelled whole;

  char message[kMaxMessage + 2];  // with a byte more than a message has, to see where to cut it
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(message, sizeof message, pattern, arguments);
  va_end(arguments);
  message[length_within(kMaxMessage, message)] = '\0';
  make_printable({message, std::strlen(message)});

  if (!elsewhere) return deliver(level, message);
  try {
    PerProcess<LogDelivery>::current().take(level, message);
  } catch (const std::exception&) {
    // Out of memory: the message is lost.
  }
}
}  // namespace symm::log
