// Threads and processes of a test, what they share, and
// waiting for them. Nothing of the library is used here.
#pragma once

#include "tests/support/test.hpp"

namespace support {
// By a clock that is the same in all processes.
inline int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Ask again and again until it is so; false after `milliseconds`, which are generous
// everywhere: they bound a failing test only.
bool eventually(const std::function<bool()>& so, int milliseconds = 30'000, int pause_us = 200);

// What `now` returns, once that does not change any more: what was released last may
// still be in another thread's hands.
template <class Now>
auto settled(const Now& now) {
  auto last = now();
  int same = 0;
  const auto unchanged = [&] {
    const auto former = std::exchange(last, now());
    same = last == former ? same + 1 : 0;
    return same >= 20;
  };
  eventually(unchanged, 30'000, 1000);
  return last;
}

// Run body(0) .. body(count - 1) on a thread each; the
// first exception is rethrown here when all have ended.
void as_threads(int count, const std::function<void(int index)>& body);

// A function in a process of its own, which ends with this one and is killed by the
// destructor. It is forked, so that a body that needs threads must start them itself,
// and this process must not run any under ThreadSanitizer.
//   A body that returns nothing ends by exit(), since what the library does there is
//   under test; the status is 1 if it threw or failed an expectation, and what it said
//   ends with why. One that returns a string ends by _exit() and has said the string.
class Process {
 public:
  template <std::invocable Body>
  explicit Process(Body&& body)
      : Process(
            [&] {
              if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
                body();
                return std::string();
              } else {
                return std::string(body());
              }
            },
            std::is_void_v<std::invoke_result_t<Body&>>) {}
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;

  pid_t pid() const { return pid_; }
  void kill(int signal) const;  // for SIGSTOP, returns when it has stopped
  // What it has said so far.
  std::string said();
  // Wait until it has said `text`; false after `milliseconds`.
  bool hear(const std::string& text, int milliseconds = 60'000);
  // Wait for tell(), which is then forgotten.
  bool told();
  // Wait until it ends, at most `milliseconds`; false if it took longer and was killed.
  bool reap(int milliseconds);
  // The same, and what waitpid() says of its end; the test fails if it took longer.
  int wait(int milliseconds = 60'000);
  // The same, and the test fails unless the status is 0.
  void expect_success(const std::string& name);
  // What it said until its end; the test fails if that does not come, or if it threw or
  // failed an expectation, by which its status is neither 0 nor `also`.
  std::string result(int also = 0);

 private:
  Process(const std::function<std::string()>& body, bool exits);

  pid_t pid_ = -1;
  int pipe_ = -1;
  int status_ = -1;  // -1: not reaped yet
  std::string said_;
};

// body(0) .. body(size - 1) in a process each.
class Processes {
 public:
  template <std::invocable<int> Body>
  Processes(int size, const Body& body) {
    list_.reserve(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      list_.emplace_back([&] { return body(rank); });
    }
  }
  Process& operator[](int rank) { return list_[static_cast<size_t>(rank)]; }
  auto begin() { return list_.begin(); }
  auto end() { return list_.end(); }
  // Expect every rank but those given to end with status 0.
  void expect_success(const std::vector<int>& except = {});

 private:
  std::vector<Process> list_;
};

// The same, and all of them but those given must end with status 0.
template <std::invocable<int> Body>
void as_processes(int size, const Body& body, const std::vector<int>& except = {}) {
  Processes(size, body).expect_success(except);
}

// In a body: for said(), a line; for told(), that a point is reached.
void say(const std::string& line);
void tell();
// In a body: hold the process where it is, for the parent to kill.
[[noreturn]] void sleep_for_ever();
// In a body: become this program, run anew with these
// arguments. Whatever is not closed on exec stays open.
[[noreturn]] void run_again(const std::vector<std::string>& arguments);

// Zeroed memory that processes share; with the path
// of a file, also with a program that maps it later.
void* map_shared(size_t bytes, const std::string& path = "");

// A T in such memory, for what a test must know
// besides the library; not a class with a destructor.
template <class T>
class Shared {
 public:
  Shared() : value_(new (map_shared(sizeof(T))) T()) {}
  explicit Shared(const std::string& path) : value_(static_cast<T*>(map_shared(sizeof(T), path))) {}
  ~Shared() { munmap(value_, sizeof(T)); }
  Shared(Shared&&) = delete;
  T* operator->() const { return value_; }
  T& operator*() const { return *value_; }

 private:
  T* value_;
};
}  // namespace support
