// Processes and signals: a rank as a process, the processes below this one, and the warden, which
// ends them if this one is killed.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/unique_fd.hpp"

namespace symm::tool {
// The program could not be started. The status is that of shells: 127 if it was not found, 126
// if it was found but cannot be run.
struct ExecError : std::runtime_error {
  ExecError(const std::string& message, int shell_status)
      : std::runtime_error(message), status(shell_status) {}
  int status;
};

struct SpawnRequest {
  std::vector<std::string> command;
  std::vector<std::string> environment;  // empty: that of this process
  std::optional<cpu_set_t> processors;
  // The descriptor that becomes the rank's; -1: /dev/null.
  int standard_input = -1;
  // Called in the rank before the program runs; false if it failed.
  std::function<void(pid_t self, bool runs)> announce;
};

struct Spawned {
  pid_t pid = -1;  // and process group
  UniqueFd out;    // what it writes to stdout and stderr, non-blocking
  UniqueFd err;
};

// The rank leads a process group of its own and is killed when this process dies.
// Signals are blocked in the launcher, so the mask and the dispositions are set back.
Spawned spawn(const SpawnRequest& request);  // throws ExecError, std::system_error

// Converts a wait status.
int shell_status(int wait_status);  // 0..255, 128 + signal if killed
// "exited with status 3", "was killed by SIGSEGV (Segmentation fault), core dumped"
std::string describe_end(int wait_status);

struct Process {
  pid_t parent = 0;
  char state = '?';  // its letter
  std::string name;
};
std::optional<Process> find_process(int64_t pid);  // nullopt: no process has that number
using Processes = std::map<pid_t, Process>;

// Living descendants of this process, zombies left out. The list is complete if this process is
// a subreaper: then no process can escape by losing its parent. The processes of `except` and
// their descendants are left out.
Processes living_descendants(const std::set<pid_t>& except);

// Children that this process had before it did anything: a shell that replaces itself
// by us (`exec`, or the last command of a script) leaves us its own.
std::set<pid_t> inherited_children();

// Signals as something to read, so that one loop sees everything in order.
class SignalQueue {
 public:
  SignalQueue();   // blocks the signals; throws std::system_error
  ~SignalQueue();  // gives back the former mask
  SignalQueue(SignalQueue&&) = delete;

  int fd() const { return fd_.get(); }
  std::vector<int> take() const;  // never waits
 private:
  sigset_t former_{};
  UniqueFd fd_;
};

bool asks_to_end(int signal);  // SIGINT, SIGTERM, SIGHUP, SIGQUIT

// A small process that outlives a launcher that is killed, and then ends its ranks and
// removes its directory. Ranks also die with the launcher by PR_SET_PDEATHSIG, but that
// reaches neither their children nor the directory.
class Warden {
 public:
  explicit Warden(const std::string& directory);  // throws std::system_error
  // Dismisses the warden, which leaves without doing anything.
  ~Warden();
  Warden(Warden&&) = delete;

  void watch(pid_t process_group);
  // Called before the leader of the process group is reaped, so that its number cannot have passed
  // to another process.
  void forget(pid_t process_group);

 private:
  void tell(int what, pid_t process_group) const;

  UniqueFd pipe_;
  pid_t pid_ = -1;
};

struct Captured {
  int status = 0;  // as a shell has it; -1: it did not end in time and was killed
  std::string out;
  std::string err;
};

// Run a program to its end and keep what it writes. Throws ExecError, std::system_error.
Captured capture(const std::vector<std::string>& command, std::chrono::milliseconds limit);
}  // namespace symm::tool
