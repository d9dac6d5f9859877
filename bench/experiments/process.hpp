// Processes that can be killed, and the questions that they are for. Each is this program run anew, so that nobody inherits a
// context or a descriptor of the driver.
#pragma once

#include "core/base/fd.hpp"
#include "tests/support/process.hpp"

namespace experiments {
// With 1 or 2 GPUs.
void exporter_killed(int gpus);
void unread_descriptor(int gpus);
void aborted_group(int gpus);
void killed_imports(int gpus);

void exporter_role(long value);   // makes memory filled with a value, hands out its descriptor, waits
void importer_role(long device);  // imports, maps, allows, unmaps in a loop until it is killed

using Clock = std::chrono::steady_clock;
inline double microseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::micro>(to - from).count();
}

// Looks every 50 us; false when the time, in milliseconds, is over.
inline bool eventually(const std::function<bool()>& so, int limit = 10'000) { return support::eventually(so, limit, 50); }
// The same without a pause between looks.
inline bool soon(const std::function<bool()>& so, int limit = 10'000) { return support::eventually(so, limit, 0); }

// A message, with a descriptor or without.
void send_message(int socket, int fd = -1);
// Nothing if the other end is closed; gives up after 20 seconds.
std::optional<symm::Fd> receive_message(int socket);
// As above, and gives up if the other end is closed.
symm::Fd expect_message(int socket, const char* what);
bool is_readable(int fd);

// In the process of a role: its end of the socket.
inline constexpr int kSocket = 3;

// A process that plays a role, with one end of a socket.
class Child {
 public:
  Child(const char* role, long argument);
  int socket() const { return socket_.get(); }
  int pidfd() const { return pidfd_.get(); }
  void close_socket() { socket_.reset(); }
  void kill() const { process_->kill(SIGKILL); }
  // Waits until its pidfd says that it is gone; gives up after 10 seconds.
  void await_death() const;
 private:
  symm::Fd socket_, pidfd_;
  std::optional<support::Process> process_;
};
}  // namespace experiments
