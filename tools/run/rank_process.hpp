// One rank as a process: how it is started and how it ended.
#pragma once

#include <sched.h>
#include <sys/types.h>
#include <functional>
#include <optional>
#include <stdexcept>
#include <vector>
#include "tools/run/output.hpp"
#include "tools/unique_fd.hpp"

namespace symm::tool {
// The program could not be started; status as shells have it: 127 not found, 126 found but not to be run.
struct ExecError : std::runtime_error {
  ExecError(const std::string& message, int shell_status) : std::runtime_error(message), status(shell_status) {}
  int status;
};

struct SpawnRequest {
  std::vector<std::string> command;
  std::vector<std::string> environment;
  std::optional<cpu_set_t> processors;
  int standard_input = -1;                              // descriptor to become the rank's, -1: /dev/null
  std::function<void(pid_t self, bool runs)> announce;  // in the rank: before the program runs; false if it could not
};

struct Spawned {
  pid_t pid = -1;  // and process group
  UniqueFd out;    // what it writes to stdout and stderr, non-blocking
  UniqueFd err;
};

// The rank leads a process group of its own and is killed when this process dies. Signals are blocked in the launcher, so the
// mask and the dispositions are set back.
Spawned spawn(const SpawnRequest& request);  // throws ExecError, std::system_error

// From a wait status.
int shell_status(int wait_status);          // 0..255, 128 + signal if killed
std::string describe_end(int wait_status);  // "exited with status 3", "was killed by SIGSEGV (Segmentation fault), core dumped"
}  // namespace symm::tool
