// Signals as something to read, so that one loop sees everything in order.
#pragma once

#include <csignal>
#include <vector>
#include "tools/unique_fd.hpp"

namespace symm::tool {
class SignalQueue {
 public:
  SignalQueue();   // blocks the signals; throws std::system_error
  ~SignalQueue();  // gives back the former mask
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int fd() const { return fd_.get(); }
  std::vector<int> take() const;  // never waits
 private:
  sigset_t former_{};
  UniqueFd fd_;
};

bool asks_to_end(int signal);  // SIGINT, SIGTERM, SIGHUP, SIGQUIT
}  // namespace symm::tool
