#include "tests/support/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Writes down what ran, in the build of ./dev coverage.
extern "C" [[gnu::weak]] void
__gcov_exit();  // NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)

namespace support {
namespace {
int pipe_to_parent = -1;

void write_to_parent(const std::string& text) {
  if (write(pipe_to_parent, text.data(), text.size()) < 0) return;
}
}  // namespace

bool eventually(const std::function<bool()>& so, int milliseconds, int pause_us) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (!so()) {
    if (std::chrono::steady_clock::now() > until) return false;
    if (pause_us != 0) std::this_thread::sleep_for(std::chrono::microseconds(pause_us));
  }
  return true;
}

void as_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  threads.reserve(errors.size());

  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&body, &error = errors[static_cast<size_t>(i)], i] {
      try {
        body(i);
      } catch (...) {
        error = std::current_exception();
      }
    });
  }

  for (std::thread& thread : threads) {
    thread.join();
  }

  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

Process::Process(const std::function<std::string()>& body, bool exits) {
  std::fflush(stdout);
  const pid_t parent = getpid();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  pipe_ = ends[0];

  if (pid_ > 0) {
    close(ends[1]);
    return;
  }

  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent && getppid() != 0) _exit(3);  // 0: out of sight, in another namespace
  close(ends[0]);
  pipe_to_parent = ends[1];
  int status = 0;

  try {
    write_to_parent(body());
  } catch (const std::exception& error) {
    say(std::string("exception: ") + error.what());
    status = 1;
  }

  if (testing::Test::HasFailure()) status = 1;
  std::fflush(stdout);
  if (!exits && __gcov_exit != nullptr) __gcov_exit();
  exits ? std::exit(status) : _exit(status);
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pipe_(std::exchange(other.pipe_, -1)),
      status_(other.status_),
      said_(std::move(other.said_)) {}

Process::~Process() {
  if (pid_ > 0) reap(0);
  if (pipe_ >= 0) close(pipe_);
}

void Process::kill(int signal) const {
  ::kill(pid_, signal);
  if (signal != SIGSTOP) return;
  siginfo_t info{};  // its threads may go on for a moment otherwise
  waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WEXITED | WNOWAIT);
}

std::string Process::said() {
  pollfd waiting{pipe_, POLLIN, 0};
  char buffer[4096];
  while (poll(&waiting, 1, 0) > 0) {
    const ssize_t got = read(pipe_, buffer, sizeof buffer);
    if (got <= 0) break;
    said_.append(buffer, static_cast<size_t>(got));
  }
  return said_;
}

bool Process::hear(const std::string& text, int milliseconds) {
  return eventually([&] { return said().find(text) != std::string::npos; }, milliseconds);
}

bool Process::told() {
  if (!hear("\n")) return false;
  said_.erase(0, said_.find('\n') + 1);
  return true;
}

bool Process::reap(int milliseconds) {
  if (status_ != -1) return true;
  int ended = 0;

  // What the process says is read meanwhile: a full pipe would hold it up.
  const auto has_ended = [&] {
    said();
    return waitpid(pid_, &ended, WNOHANG) == pid_;
  };

  const bool in_time = eventually(has_ended, milliseconds);
  if (!in_time) {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, &ended, 0);
  }

  status_ = ended;
  return in_time;
}

int Process::wait(int milliseconds) {
  if (!reap(milliseconds)) {
    ADD_FAILURE() << "process " << pid_ << " did not end within " << milliseconds
                  << " ms; it said: " << said();
  }
  return status_;
}

void Process::expect_success(const std::string& name) {
  const int status = wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << name << " ended with wait status " << status << ": " << said();
}

std::string Process::result(int also) {
  const int status = wait();
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == also)
      << "process " << pid_ << " ended with wait status " << status << ": " << said();
  return said();
}

void Processes::expect_success(const std::vector<int>& except) {
  for (int rank = 0; rank < static_cast<int>(list_.size()); ++rank) {
    if (std::find(except.begin(), except.end(), rank) == except.end()) {
      (*this)[rank].expect_success("rank " + std::to_string(rank));
    }
  }
}

void say(const std::string& line) { write_to_parent(line + "\n"); }

void tell() { say(""); }

void sleep_for_ever() {
  for (;;) {
    pause();
  }
}

void run_again(const std::vector<std::string>& arguments) {
  std::vector<char*> words{const_cast<char*>("/proc/self/exe")};
  for (const std::string& argument : arguments) {
    words.push_back(const_cast<char*>(argument.c_str()));
  }
  words.push_back(nullptr);
  execv(words[0], words.data());
  _exit(127);
}

bool takes_text(int fd) {
  const std::string text = "text";
  return syscall(SYS_write, fd, text.data(), text.size()) != -1 || errno != EBADF;
}

void* map_shared(size_t bytes, const std::string& path) {
  const int fd = path.empty() ? -1 : open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (!path.empty() && (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0)) {
    throw std::runtime_error("cannot make " + path);
  }
  void* const memory = mmap(
      nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
  if (fd >= 0) close(fd);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return memory;
}
}  // namespace support
