// SPDX-License-Identifier: Apache-2.0
#include "tests/bootstrap/support.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <thread>
#include <utility>

namespace support {

symm::Bytes bytes_of(const std::string& text) {
  symm::Bytes bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

std::string text_of(const symm::Bytes& bytes) {
  std::string text(bytes.size(), '\0');
  std::transform(bytes.begin(), bytes.end(), text.begin(), [](std::byte b) { return static_cast<char>(b); });
  return text;
}

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "symm-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> entries(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void as_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&body, &error = errors[static_cast<size_t>(i)], i] {
      try {
        body(i);
      } catch (...) {
        error = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

symm::Failure failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const symm::Error& error) {
    return error.failure();
  }
  return {};
}

Process::Process(const std::function<std::string(Process&)>& body) {
  if (pipe(pipe_) != 0) throw std::runtime_error("pipe");
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ > 0) {
    close(std::exchange(pipe_[1], -1));
    return;
  }
  close(std::exchange(pipe_[0], -1));
  std::string result;
  try {
    result = body(*this);
  } catch (const symm::Error& error) {
    result = std::string(symm::name_of(error.status())) + ": " + error.what();
  }
  const bool written = write(pipe_[1], result.data(), result.size()) == static_cast<ssize_t>(result.size());
  _exit(written ? 0 : 1);
}

Process::Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {
  for (int end = 0; end < 2; ++end) pipe_[end] = std::exchange(other.pipe_[end], -1);
}

Process::~Process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int end : pipe_) {
    if (end >= 0) close(end);
  }
}

void Process::signal(int number) const {
  ::kill(pid_, number);
  if (number == SIGSTOP) waitpid(pid_, nullptr, WUNTRACED);
}

std::string Process::result() {
  std::string all;
  char buffer[512];
  pollfd ready{pipe_[0], POLLIN, 0};
  while (poll(&ready, 1, 30'000) > 0) {
    const ssize_t got = read(pipe_[0], buffer, sizeof buffer);
    if (got <= 0) {
      waitpid(pid_, nullptr, 0);
      pid_ = -1;
      return all;
    }
    all.append(buffer, static_cast<size_t>(got));
  }
  return "nothing in 30 seconds";
}

void Process::tell() {
  if (write(pipe_[1], "\n", 1) != 1) _exit(1);
}

bool Process::told(int milliseconds) {
  pollfd ready{pipe_[0], POLLIN, 0};
  char newline = 0;
  return poll(&ready, 1, milliseconds) == 1 && read(pipe_[0], &newline, 1) == 1 && newline == '\n';
}

}  // namespace support
