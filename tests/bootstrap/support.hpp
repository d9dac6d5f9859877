// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the bootstrap share: directories, ranks as threads, ranks as processes that get killed.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/bootstrap/store.hpp"

namespace support {

symm::Bytes bytes_of(const std::string& text);
std::string text_of(const symm::Bytes& bytes);
inline symm::Deadline soon() { return symm::Deadline::after_ms(20'000); }

// A private directory, removed with all that is in it.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::vector<std::string> entries(const std::string& directory);  // sorted

// Run body(0) .. body(count - 1) on a thread each; the first exception comes out here.
void as_threads(int count, const std::function<void(int)>& body);

// The failure that `body` throws; status ok if it throws none.
symm::Failure failure_of(const std::function<void()>& body);

// A forked process. What the body returns can be read here; an Error comes out as "<status name>: <message>".
class Process {
 public:
  explicit Process(const std::function<std::string(Process& self)>& body);
  ~Process();  // kills it
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;

  int pid() const { return pid_; }
  void signal(int number) const;  // for SIGSTOP, returns when it has stopped
  std::string result();           // waits for its end
  // In the body: tell the test that a point is reached. In the test: wait for that.
  void tell();
  bool told(int milliseconds = 20'000);

 private:
  int pid_ = -1;
  int pipe_[2] = {-1, -1};
};

}  // namespace support
