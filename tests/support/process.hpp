// Threads and processes of a test, the memory that they share, and waits for them. Nothing of the
// library is used here.
#pragma once

#include "tests/support/test.hpp"

namespace support {
// The time by a clock that all processes share.
inline int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Polls `so` until it is true; returns false after `milliseconds`, which are generous everywhere,
// because they bound only a test that fails.
bool eventually(const std::function<bool()>& so, int milliseconds = 30'000, int pause_us = 200);

// Returns the value of `now` once it does not change any more: another thread may still have to
// give back what was released last.
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

// Runs body(0) .. body(count - 1) on a thread each; the first exception is rethrown here when all
// threads have ended.
void as_threads(int count, const std::function<void(int index)>& body);

// A function in a child process, which ends with this process and is killed by the destructor.
// The child is forked: a body that needs threads must start them itself, and this process must not
// run any threads under ThreadSanitizer.
//   A body that returns nothing ends by exit(), because what the library does at exit is under
//   test. The status is 1 if the body threw or failed an expectation, and what it said ends with
//   the reason. A body that returns a string ends by _exit() and has said the string.
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
  // Returns what the process has said so far.
  std::string said();
  // Waits until the process has said `text`; returns false after `milliseconds`.
  bool hear(const std::string& text, int milliseconds = 60'000);
  // Waits for the child's tell(), which is then forgotten.
  bool told();
  // Waits for the end of the process; false if it took longer than `milliseconds` and was killed.
  bool reap(int milliseconds);
  // Waits for the end and returns what waitpid() says of it; the test fails if it took longer.
  int wait(int milliseconds = 60'000);
  // Waits for the end; the test fails unless the status is 0.
  void expect_success(const std::string& name);
  // Waits for the end and returns what the process said. The test fails if the end does not come,
  // or if the status is neither 0 nor `also`: the body threw or failed an expectation.
  std::string result(int also = 0);

 private:
  Process(const std::function<std::string()>& body, bool exits);

  pid_t pid_ = -1;
  int pipe_ = -1;
  int status_ = -1;  // -1: not reaped yet
  std::string said_;
};

// Runs body(0) .. body(size - 1) in a process each.
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
  // Expects that every rank except the ones given ends with status 0.
  void expect_success(const std::vector<int>& except = {});

 private:
  std::vector<Process> list_;
};

// Runs body(0) .. body(size - 1) in a process each. All except the ones given must end with status
// 0.
template <std::invocable<int> Body>
void as_processes(int size, const Body& body, const std::vector<int>& except = {}) {
  Processes(size, body).expect_success(except);
}

// The calls below are for a body.
// Says a line, which the parent gets by said().
void say(const std::string& line);
// Tells the parent, which waits in told(), that a point is reached.
void tell();
// Holds the process where it is, for the parent to kill.
[[noreturn]] void sleep_for_ever();
// Runs this program anew in the process, with these arguments. Descriptors that are not closed on
// exec stay open.
[[noreturn]] void run_again(const std::vector<std::string>& arguments);

// Whether a descriptor takes text, which is tried; one that is closed does not. For threads that
// write to a number while another thread opens and closes it: ThreadSanitizer calls that a race,
// and it is what such a test is about, so this write is hidden from it.
bool takes_text(int fd);

// Zeroed memory that processes share. If it has the path of a file, a program can map it later.
void* map_shared(size_t bytes, const std::string& path = "");

// A T in memory that processes share, through which they talk without the library. T must have no
// destructor.
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
