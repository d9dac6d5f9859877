#include "tools/start.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

namespace symm::tool {
namespace {
bool is_signal_taken = false;
struct sigaction former{};
}  // namespace

void hold_closed_streams() {
  int made = -1;
  do {
    made = ::open("/", O_PATH | O_CLOEXEC);
  } while (made >= 0 && made <= STDERR_FILENO);
  if (made >= 0) ::close(made);
}

void fail_beyond_file_sizes() {
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  is_signal_taken = ::sigaction(SIGXFSZ, &ignore, &former) == 0;
}

void restore_file_size_signal() {
  if (is_signal_taken) ::sigaction(SIGXFSZ, &former, nullptr);
}
}  // namespace symm::tool
