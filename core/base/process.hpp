// Facts about this process that never change, and the one that may: whether it is a
// forked child. And what /proc says about others.
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
const std::string& boot_id();  // of the running kernel; "" if unreadable
uint64_t random64();
std::array<std::byte, 16> random_id();

// Number of fork() calls between the process that first used the library and this one.
// A handle remembers the value at its creation; in a child it differs and the handle is
// refused. (getpid() would cost a system call in every collective.)
uint32_t fork_generation() noexcept;
// Run in the child right after fork(), in which only
// async-signal-safe work is allowed: close sockets.
void at_fork_in_child(void (*handler)() noexcept);
// Of what a child goes on with: no fork() happens while it is
// held, and what it guards is whole there. For moments only.
std::mutex& lock_against_fork() noexcept;

struct Stat {
  char state = '?';
  // clock ticks from boot to its start: with the pid, it names the process for good
  uint64_t start = 0;
  bool stopped() const noexcept { return state == 'T' || state == 't'; }
};
// Nothing if no such process is to be seen from here.
std::optional<Stat> stat_of(int64_t pid);
uint64_t start_time_of(int64_t pid);  // 0 if unknown
// For certain; `start` is its start time as seen from here.
bool is_gone(int64_t pid, uint64_t start);

// While it lives, its thread is not cancelled (pthread_cancel()): that unwinds by an
// exception of its own kind, which ends the process where it meets noexcept.
class Uncancelled {
 public:
  Uncancelled() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Uncancelled() { pthread_setcancelstate(before_, nullptr); }
  Uncancelled(Uncancelled&&) = delete;

 private:
  int before_ = 0;
};

// Puts back how signals are handled, which a library that is loaded meanwhile may change.
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

// Runs `work`, which throws nothing, in a detached thread of that name (15 characters
// at most) that gets no signals but for what it does wrong itself: others are for the
// program's own threads. Throws Error(system).
void start_thread(const char* name, std::function<void()> work);
}  // namespace symm::process
