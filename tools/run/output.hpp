// SPDX-License-Identifier: Apache-2.0
//
// Text on its way to a descriptor that is not ours to make non-blocking (others share it).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace symm::tool {

class Output {
 public:
  explicit Output(int fd) : fd_(fd) {}

  int fd() const { return fd_; }
  bool pending() const { return !queue_.empty(); }
  bool full() const { return queue_.size() >= limit; }  // stop reading from the ranks, so that they wait for the reader too
  bool broken() const { return broken_; }               // the reader has gone
  std::string& queue() { return queue_; }
  // Call when poll() says that the descriptor is writable: then at least write_size bytes go without blocking.
  void write_some();

 private:
  static constexpr size_t limit = size_t{256} << 10;
  static constexpr size_t write_size = 4096;  // PIPE_BUF: a writable pipe takes that much

  int fd_;
  bool broken_ = false;
  std::string queue_;
};

}  // namespace symm::tool
