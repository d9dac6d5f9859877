// SPDX-License-Identifier: Apache-2.0
//
// Processes that can be killed. The program's first process never touches CUDA: it runs each question in a process of its own,
// and starts further ones at that one's request, so that nobody inherits a context or a descriptor of the driver.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "core/base/fd.hpp"
#include "tests/support/footprint.hpp"
#include "tests/support/process.hpp"

namespace experiments {

using Clock = std::chrono::steady_clock;

inline double microseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

// Looks every 50 us; false when the time, in milliseconds, is over.
inline bool eventually(const std::function<bool()>& so, int limit = 10'000) { return support::eventually(so, limit, 50); }
// The same without a pause between looks.
inline bool soon(const std::function<bool()>& so, int limit = 10'000) { return support::eventually(so, limit, 0); }

using Descriptor = symm::Fd;

struct Message {
  int64_t value = 0;
  Descriptor fd;
};
void send_message(int socket, int64_t value, int fd = -1);
// Nothing if the other end is closed; gives up after 20 seconds.
std::optional<Message> receive_message(int socket);
// As above, and gives up if the other end is closed.
Message expect_message(int socket, const char* what);

// Another process of this program, running a role of main.cpp, with one end of a socket.
class Child {
 public:
  Child(const std::string& role, int64_t argument);
  int socket() const { return socket_.get(); }
  int pidfd() const { return pidfd_.get(); }
  void close_socket() { socket_.reset(); }
  void kill() const;
  // Waits until its pidfd says that it is gone; gives up after 10 seconds.
  void await_death() const;

 private:
  Descriptor socket_;
  Descriptor pidfd_;
};

bool is_readable(int fd);

// What a process was started for: its end of the socket is descriptor 3.
inline constexpr int kSocket = 3;

struct Totals {
  int passed = 0;
  int failed = 0;
};
// For the first process: runs a question, starts what it asks for, and ends all of it.
Totals run_question(const std::string& question, int64_t argument, std::chrono::seconds limit);
// For the process of a question: what it counted.
void report_totals(Totals totals);

}  // namespace experiments
