#include "tools/run/signals.hpp"
#include <sys/signalfd.h>
#include <cerrno>
#include <system_error>

namespace symm::tool {
namespace {
bool ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}
}  // namespace

SignalQueue::SignalQueue() {
  sigset_t wanted;
  sigemptyset(&wanted);
  // A parent may have left SIGCHLD ignored; then the kernel would reap our ranks and we could not tell how they ended.
  ::signal(SIGCHLD, SIG_DFL);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH, SIGCHLD})
    if (!ignored(signal)) sigaddset(&wanted, signal);  // what nohup and the like had ignored stays so, here and in the ranks
  ::sigprocmask(SIG_BLOCK, &wanted, &former_);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGTTIN, SIG_IGN);  // a read from the terminal while in the background fails instead of stopping us
  fd_ = UniqueFd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) throw std::system_error(errno, std::generic_category(), "signalfd");
}

SignalQueue::~SignalQueue() { ::sigprocmask(SIG_SETMASK, &former_, nullptr); }

std::vector<int> SignalQueue::take() const {
  std::vector<int> out;
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    out.push_back(static_cast<int>(info.ssi_signo));
  return out;
}

bool asks_to_end(int signal) { return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT; }
}  // namespace symm::tool
