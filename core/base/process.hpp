// Facts about this process that never change, and one that may: whether it is a forked child. Also
// what /proc says about other processes.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

namespace symm::process {
// Identifies the boot of the running kernel; "" if unreadable.
const std::string& boot_id();
uint64_t random64();
std::array<std::byte, 16> random_id();

// The number of fork() calls between the process that first used the library and this one. A handle
// remembers the value at its creation; in a child the value differs and the handle is refused.
// (getpid() would cost a system call in every collective.)
uint32_t fork_generation() noexcept;
// Registers a handler that runs in the child right after fork(), where only async-signal-safe work
// is allowed, such as closing sockets.
void at_fork_in_child(void (*handler)() noexcept);
// A lock that fork() takes too: no fork() happens while it is held, so a child finds what it guards
// in a consistent state. Hold it for moments only, and make no descriptor meanwhile: the numbers of
// closed streams are guarded by it (closed_streams.cpp).
std::mutex& lock_against_fork() noexcept;

struct Stat {
  char state = '?';
  // The clock ticks from boot to the start of the process. Together with the pid, they identify
  // the process for good.
  uint64_t start = 0;
  bool stopped() const noexcept { return state == 'T' || state == 't'; }
};
// Nothing if this process can see no such process.
std::optional<Stat> stat_of(int64_t pid);
uint64_t start_time_of(int64_t pid);  // 0 if unknown
// The time since boot, by a clock that all processes of the machine share. It goes on while the
// machine is suspended.
uint64_t boot_time_ns() noexcept;
// The time at which this process began, by boot_time_ns(), to within a clock tick; 0
// if unknown.
uint64_t began_ns();
// Whether the process is gone for certain; `start` is its start time as seen from here.
bool is_gone(int64_t pid, uint64_t start);

// Keeps the calling thread from being cancelled (pthread_cancel()) while it lives. A cancellation
// unwinds the stack by an exception of its own kind, which ends the process at a noexcept.
class Uncancelled {
 public:
  Uncancelled() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Uncancelled() { pthread_setcancelstate(before_, nullptr); }
  Uncancelled(Uncancelled&&) = delete;

 private:
  int before_ = 0;
};

// At its end, restores how signals were handled at its beginning. A library that is loaded
// meanwhile may change that.
class SignalsKept {
 public:
  SignalsKept() {
    for (size_t number = 1; number < NSIG; ++number) {
      sigaction(static_cast<int>(number), nullptr, &actions_[number]);
    }
    sigaltstack(nullptr, &stack_);
  }
  ~SignalsKept() {
    for (size_t number = 1; number < NSIG; ++number) {
      sigaction(static_cast<int>(number), &actions_[number], nullptr);
    }
    sigaltstack(&stack_, nullptr);
  }
  SignalsKept(SignalsKept&&) = delete;

 private:
  std::array<struct sigaction, NSIG> actions_{};
  stack_t stack_{};
};

// Runs `work`, which throws nothing, in a detached thread of that name (15 characters at most). The
// thread gets no signals but those for its own faults; other signals are for the program's threads.
// Throws Error(system).
void start_thread(const char* name, std::function<void()> work);
}  // namespace symm::process
