// Threads of the drop-in's own, and variables of each thread.
#pragma once

#include <signal.h>

#include <cstddef>
#include <memory>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>

namespace symm::nccl {
// The variable of this type that each thread has, which is destroyed when the thread ends. Exit
// handlers and destructors of static objects run on a thread whose variables have gone, and may
// call NCCL: they find a new one, which stays.
template <class Value>
class OfThread {
  static_assert(std::is_nothrow_default_constructible_v<Value>);

 public:
  static Value& get() noexcept {
    if (value_ == nullptr) begin();
    return *value_;
  }

 private:
  struct End {
    ~End() { std::destroy_at(std::exchange(value_, nullptr)); }
  };

  // Nothing goes through the definition of `end` once it has been destroyed.
  static void begin() noexcept {
    value_ = new (static_cast<void*>(memory_)) Value;
    if (std::exchange(has_end_, true)) return;
    static thread_local End end;
    static_cast<void>(end);
  }

  alignas(Value) inline static thread_local std::byte memory_[sizeof(Value)];
  inline static thread_local Value* value_ = nullptr;
  inline static thread_local bool has_end_ = false;
};

// Begins a detached thread that takes none of the program's signals, but those of its own faults.
template <class Body>
void start_thread(Body body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
    sigdelset(&all, own);
  }
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(std::move(body)).detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}
}  // namespace symm::nccl
