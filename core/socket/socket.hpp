// Sockets by which ranks of one machine find each other: SEQPACKET, with a name in a directory that
// only this user may enter, and a check of the process at the other end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "core/base/fd.hpp"
#include "core/base/peer_fd.hpp"

namespace symm {
// A listening socket. The destructor removes its file.
class Listener {
 public:
  // Binds to `name` in `directory`, which must have mode 0700 and belong to this user. Throws
  // Error(system), Error(unavailable).
  Listener(const std::string& directory, std::string name);
  Listener(Listener&&) = delete;
  ~Listener();
  int get() const noexcept { return socket_.get(); }
  const std::string& name() const noexcept { return name_; }

  // The next connection in the queue, without waiting; empty if there is none. Connections of
  // another user's processes are closed unread, and each increments `refused`. Throws
  // Error(system).
  PeerFd accept(uint64_t& refused);

 private:
  Fd directory_;
  PeerFd socket_;
  std::string name_;
  uint32_t generation_ = 0;
};

// Connects without waiting. Empty if the listener's queue is full just now. Throws
// Error(peer_failed) if there is no listener, Error(unavailable) if it is another user's, and
// Error(system) for other failures.
PeerFd dial(const std::string& directory, const std::string& name);

// The process at the other end, as the kernel says.
struct PeerProcess {
  uid_t uid = 0;
  int64_t pid = 0;  // 0 in a foreign pid namespace
  PeerFd pidfd;     // empty if the kernel offers none and the pid cannot be trusted
};
PeerProcess identify(int socket);

// This process's pid and time namespaces, as one number; 0 if unknown. A pid and a start time mean
// the same process to all processes for which this number is equal.
uint64_t pid_namespace();
// This process's network namespace, as a number; 0 if unknown. Processes for which it is equal
// reach each other by the loopback interface.
uint64_t network_namespace();
// "killed by signal 9", "exited with status 1", or "" if the kernel does not tell
// (before 6.15) or the process is not dead.
std::string manner_of_death(int pidfd);
}  // namespace symm
