// Facts about this process, and about others from /proc; also the start of the
// library's threads.
#include "core/base/process.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"

namespace symm::process {
namespace {
constexpr uint64_t kSecondNs = 1'000'000'000;

void fill_random(void* data, size_t size) {
  auto* bytes = static_cast<std::byte*>(data);
  while (size > 0) {
    const ssize_t got = getrandom(bytes, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error(errno, "getrandom");
    bytes += got;
    size -= static_cast<size_t>(got);
  }
}

std::atomic<uint32_t> generation{0};
constexpr size_t kMaxHandlers = 32;
std::atomic<void (*)() noexcept> handlers[kMaxHandlers];

constinit std::mutex against_fork;

void run_handlers_in_child() {
  against_fork.unlock();
  generation.fetch_add(1, std::memory_order_relaxed);
  for (auto& slot : handlers) {
    if (auto* handler = slot.load(std::memory_order_relaxed)) handler();
  }
}

// Registered before main() of the program, or when the library is loaded: a fork before the first
// call does no harm, but one between the first call and a later registration would.
[[gnu::constructor]] void watch_fork() {
  pthread_atfork([] { against_fork.lock(); }, [] { against_fork.unlock(); }, run_handlers_in_child);
}
}  // namespace

const std::string& boot_id() {
  // Never destroyed: a thread may outlive main().
  static const auto* const value = [] {
    const Fd file = make_fd(::open, "/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    char text[64];
    const ssize_t got = file ? read_whole(file.get(), text, sizeof text) : -1;
    // A failure for want of descriptors or memory is not kept: a later call may succeed. If there
    // is no such file, or it may not be read, that stays so.
    if (got < 0 && errno != ENOENT && errno != EACCES) throw system_error(errno, "read", "boot_id");

    auto* id = new std::string(text, got > 0 ? static_cast<size_t>(got) : 0);
    while (!id->empty() && id->back() == '\n') {
      id->pop_back();
    }
    return id;
  }();
  return *value;
}

uint64_t random64() {
  uint64_t value = 0;
  fill_random(&value, sizeof value);
  return value;
}

std::array<std::byte, 16> random_id() {
  std::array<std::byte, 16> id;
  fill_random(id.data(), id.size());
  return id;
}

std::mutex& lock_against_fork() noexcept { return against_fork; }

uint32_t fork_generation() noexcept { return generation.load(std::memory_order_relaxed); }

void at_fork_in_child(void (*handler)() noexcept) {
  for (auto& slot : handlers) {
    void (*empty)() noexcept = nullptr;
    if (slot.load() == handler || slot.compare_exchange_strong(empty, handler)) return;
  }
  throw Error(Status::internal, "too many fork handlers");
}

std::optional<Stat> stat_of(int64_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  const Fd file = make_fd(::open, path, O_RDONLY | O_CLOEXEC);
  if (!file) return std::nullopt;

  char text[1024];
  const ssize_t size = read_whole(file.get(), text, sizeof text - 1);
  if (size <= 0) return std::nullopt;
  text[size] = '\0';

  // The program's name may contain anything, also parentheses: the last one ends it.
  const char* const after_name = std::strrchr(text, ')');
  Stat found;
  if (after_name == nullptr ||
      std::sscanf(after_name + 1,
          " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %lu",
          &found.state, &found.start) != 2) {
    return std::nullopt;
  }
  return found;
}

bool is_gone(int64_t pid, uint64_t start) {
  if (const auto stat = stat_of(pid)) {
    return stat->start != start || stat->state == 'Z' || stat->state == 'X';
  }
  // The process cannot be looked at just now, or does not exist: only the second means gone.
  return kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

uint64_t start_time_of(int64_t pid) {
  const auto stat = stat_of(pid);
  return stat ? stat->start : 0;
}

uint64_t boot_time_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * kSecondNs + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t began_ns() {
  const auto ticks_a_second = static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  return start_time_of(getpid()) * (kSecondNs / ticks_a_second);
}

void start_thread(const char* name, std::function<void()> work) {
  struct Start {
    const char* name;
    std::function<void()> work;
  };

  auto start = std::make_unique<Start>(Start{name, std::move(work)});

  // A thread inherits the mask, so the mask is set around the creation. The signals that a thread
  // brings on itself stay unblocked, so that the program's handler for crashes gets them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
    sigdelset(&all, signal);
  }
  pthread_sigmask(SIG_SETMASK, &all, &before);

  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  const int error = pthread_create(
      &thread, &attributes,
      [](void* argument) -> void* {
        const std::unique_ptr<Start> own(static_cast<Start*>(argument));
        pthread_setname_np(pthread_self(), own->name);
        own->work();
        return nullptr;
      },
      start.get());

  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) throw system_error(error, "pthread_create");
  start.release();  // NOLINT(bugprone-unused-return-value): the thread owns it now
}
}  // namespace symm::process
