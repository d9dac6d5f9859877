#include "tools/run/warden.hpp"
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include "tools/run/job_directory.hpp"

namespace symm::tool {
namespace {
enum Message : int { watch_group, forget_group, leave };
using Frame = std::array<int, 2>;  // a write of this size to a pipe is never divided

constexpr long nr_pidfd_send_signal = 424;  // Linux 5.1
constexpr long nr_pidfd_open = 434;         // Linux 5.3

// When the launcher is gone, the number may become somebody else's: then no process of the group is left.
struct Group {
  explicit Group(pid_t leader) : id(leader), fd(static_cast<int>(::syscall(nr_pidfd_open, leader, 0))) {}
  void kill() const {
    const bool reaped = fd && ::syscall(nr_pidfd_send_signal, fd.get(), 0, nullptr, 0) != 0 && errno == ESRCH;
    if (!reaped || ::kill(id, 0) != 0) ::kill(-id, SIGKILL);
  }
  pid_t id;
  UniqueFd fd;
};

// Another session: what the terminal sends to the launcher does not reach it. Nothing but the pipe stays open.
void detach(int pipe) {
  ::setsid();
  ::prctl(PR_SET_NAME, "symm-warden");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, SIG_IGN);
  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(null, fd);
  ::dup2(pipe, 3);
  constexpr long close_range = 436;  // Linux 5.9
  if (::syscall(close_range, 4, ~0U, 0) != 0)
    for (long fd = ::sysconf(_SC_OPEN_MAX); fd >= 4; --fd) ::close(static_cast<int>(fd));
}

[[noreturn]] void watch_over(int pipe, const std::string& directory) {
  detach(pipe);
  std::vector<Group> groups;
  Frame frame{};
  ssize_t size = 0;
  while ((size = ::read(3, &frame, sizeof frame)) != 0) {
    if (size < 0 && errno == EINTR) continue;
    if (size != static_cast<ssize_t>(sizeof frame)) break;
    if (frame[0] == leave) ::_exit(0);
    if (frame[0] == watch_group) groups.emplace_back(frame[1]);
    if (frame[0] == forget_group)
      groups.erase(
          std::remove_if(groups.begin(), groups.end(), [&](const Group& one) { return one.id == frame[1]; }), groups.end());
  }
  for (const Group& group : groups) group.kill();
  remove_tree(directory);
  ::_exit(0);
}
}  // namespace

Warden::Warden(const std::string& directory) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  UniqueFd read_end(ends[0]);
  pipe_ = UniqueFd(ends[1]);
  pid_ = ::fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) {
    pipe_.reset();
    watch_over(read_end.get(), directory);
  }
}

Warden::~Warden() {
  tell(leave, 0);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
}

void Warden::tell(int what, pid_t process_group) const {
  const Frame frame{what, process_group};
  // A warden that somebody killed is a loss of the second safety net only; the launcher ends its ranks itself.
  [[maybe_unused]] const ssize_t sent = ::write(pipe_.get(), &frame, sizeof frame);
}

void Warden::watch(pid_t process_group) { tell(watch_group, process_group); }
void Warden::forget(pid_t process_group) { tell(forget_group, process_group); }
}  // namespace symm::tool
