// Starts and ends processes, and finds those below this one in /proc.
#include "tools/run/processes.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/environment.hpp"
#include "tools/run/job.hpp"
#include "tools/start.hpp"
#include "tools/text.hpp"
#include "tools/unique_fd.hpp"

namespace symm::tool {
namespace {
std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& text : strings) {
    out.push_back(const_cast<char*>(text.c_str()));
  }
  out.push_back(nullptr);
  return out;
}

// Whether a file, which the kernel does not know to run, is no text: there is a zero byte in its
// first line, or in as much of that as a shell would look at.
bool is_binary(const char* path) {
  constexpr size_t kLooked = 80;
  std::array<char, kLooked> begin{};
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t length = file < 0 ? 0 : ::read(file, begin.data(), begin.size());
  if (file >= 0) ::close(file);

  const std::string_view looked(begin.data(), length > 0 ? static_cast<size_t>(length) : 0);
  return looked.substr(0, looked.find('\n')).find('\0') != std::string_view::npos;
}

// Executes a program like execvpe(), which gives every file that the kernel does not know to
// /bin/sh. This function gives it only files that may be scripts: a shell finds no words in
// zeros and ends with 0, as if the program had run. Returns only with an error, in errno.
void execute(char* const* arguments, char* const* variables) {
  const std::string program = arguments[0];
  errno = ENOENT;
  if (program.empty()) return;

  std::vector<std::string> paths{program};
  if (program.find('/') == std::string::npos) {
    std::string searched = environment("PATH");
    if (searched.empty()) searched = "/bin:/usr/bin";
    // A folder without a name is the current one, the last of the list too.
    std::istringstream places(searched + ':');
    paths.clear();
    for (std::string place; std::getline(places, place, ':');) {
      paths.push_back(place.empty() ? program : place + "/" + program);
    }
  }

  // What says of one folder only that the program is not to be had there: in a file system that is
  // gone, for one.
  constexpr int kNotThere[] = {EACCES, ENOENT, ENOTDIR, ESTALE, ENODEV, ETIMEDOUT};
  bool is_forbidden = false;
  for (const std::string& path : paths) {
    ::execve(path.c_str(), arguments, variables);
    if (errno == ENOEXEC && !is_binary(path.c_str())) {
      std::vector<char*> script{const_cast<char*>("/bin/sh"), const_cast<char*>(path.c_str())};
      for (char* const* argument = arguments + 1; *argument != nullptr; ++argument) {
        script.push_back(*argument);
      }
      script.push_back(nullptr);
      ::execve(script[0], script.data(), variables);
      return;
    }
    if (errno == EACCES) is_forbidden = true;
    if (std::find(std::begin(kNotThere), std::end(kNotThere), errno) == std::end(kNotThere)) {
      return;
    }
  }
  if (is_forbidden) errno = EACCES;
}

// Runs in the child. Reports the error of exec through `report` and never returns.
[[noreturn]] void become(
    const SpawnRequest& request, pid_t launcher, int out, int err, int report) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(128 + SIGKILL);  // it died before the line above

  const int input = request.standard_input >= 0 ? request.standard_input
                                                : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(input, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (request.processors) ::sched_setaffinity(0, sizeof(cpu_set_t), &*request.processors);

  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGTTIN, SIG_DFL);
  restore_file_size_signal();
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);

  const auto arguments = pointers(request.command);
  const auto environment = pointers(request.environment);
  if (request.announce) request.announce(::getpid(), true);
  execute(arguments.data(), request.environment.empty() ? environ : environment.data());

  const int error = errno;
  if (request.announce) request.announce(::getpid(), false);
  [[maybe_unused]] const ssize_t sent = ::write(report, &error, sizeof error);
  ::_exit(127);
}

void raise_exec_error(const std::string& program, int error) {
  const bool missing = error == ENOENT || error == ENOTDIR;
  std::string message = "cannot run '" + program + "': " + std::strerror(error);
  if (missing && program.find('/') == std::string::npos) {
    message += " (not in PATH; a program in this directory is written ./" + program + ")";
  }
  if (error == ENOEXEC) {
    message += " (neither a binary for this machine nor a script with a #! line)";
  }
  throw ExecError(message, missing ? 127 : 126);
}

Processes read_processes() {
  Processes processes;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (auto process = find_process(pid)) processes[pid] = *process;
  }
  return processes;
}

bool ignored(int signal) {
  struct sigaction action{};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

enum Message : int { watch_group, forget_group, leave };

using Frame = std::array<int, 2>;  // a write of this size to a pipe is never divided

constexpr long nr_pidfd_send_signal = 424;  // Linux 5.1
constexpr long nr_of_pidfd_open = 434;      // Linux 5.3

// When the launcher is gone, the number of a group may be given to another process; then no
// process of the group is left.
struct Group {
  explicit Group(pid_t leader)
      : id(leader), fd(static_cast<int>(::syscall(nr_of_pidfd_open, leader, 0))) {}

  void kill() const {
    const bool reaped =
        fd && ::syscall(nr_pidfd_send_signal, fd.get(), 0, nullptr, 0) != 0 && errno == ESRCH;
    if (!reaped || ::kill(id, 0) != 0) ::kill(-id, SIGKILL);
  }

  pid_t id;
  UniqueFd fd;
};

// The warden is in another session, so that signals of the terminal to the launcher do not
// reach it. Only the pipe stays open.
void detach(int pipe) {
  ::setsid();
  ::prctl(PR_SET_NAME, "symm-warden");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    ::signal(signal, SIG_IGN);
  }

  const int null = ::open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) {
    ::dup2(null, fd);
  }

  ::dup2(pipe, 3);
  constexpr long close_range = 436;  // Linux 5.9
  if (::syscall(close_range, 4, ~0U, 0) != 0) {
    for (long fd = ::sysconf(_SC_OPEN_MAX); fd >= 4; --fd) {
      ::close(static_cast<int>(fd));
    }
  }
}

[[noreturn]] void watch_over(int pipe, const std::string& directory) {
  detach(pipe);
  std::vector<Group> groups;
  Frame frame{};
  for (;;) {
    const ssize_t size = ::read(3, &frame, sizeof frame);
    if (size < 0 && errno == EINTR) continue;
    if (size != static_cast<ssize_t>(sizeof frame)) break;
    if (frame[0] == leave) ::_exit(0);
    if (frame[0] == watch_group) groups.emplace_back(frame[1]);
    if (frame[0] == forget_group) {
      groups.erase(std::remove_if(groups.begin(), groups.end(),
                       [&](const Group& one) { return one.id == frame[1]; }),
          groups.end());
    }
  }

  for (const Group& group : groups) {
    group.kill();
  }
  remove_tree(directory);
  ::_exit(0);
}

// False at the end of the stream.
bool read_into(const UniqueFd& fd, std::string& text) {
  char buffer[4096];
  const ssize_t size = ::read(fd.get(), buffer, sizeof buffer);
  if (size > 0) text.append(buffer, static_cast<size_t>(size));
  return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
}

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}
}  // namespace

Spawned spawn(const SpawnRequest& request) {
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  Pipe report = make_pipe();
  const pid_t launcher = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");

  if (pid == 0) {
    become(request, launcher, out.write_end.get(), err.write_end.get(), report.write_end.get());
  }

  ::setpgid(pid, pid);  // in both, so that a signal sent from now on finds the group
  report.write_end.reset();
  int error = 0;
  ssize_t size = 0;
  do {
    size = ::read(report.read_end.get(), &error, sizeof error);
  } while (size < 0 && errno == EINTR);

  if (size == static_cast<ssize_t>(sizeof error)) {
    wait_for(pid);
    raise_exec_error(request.command[0], error);
  }

  for (const UniqueFd* fd : {&out.read_end, &err.read_end}) {
    ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  }

  return {pid, std::move(out.read_end), std::move(err.read_end)};
}

int shell_status(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string describe_end(int wait_status) {
  if (!WIFSIGNALED(wait_status)) {
    return "exited with status " + std::to_string(WEXITSTATUS(wait_status));
  }
  std::string text = "was killed by " + signal_name(WTERMSIG(wait_status));
  if (WCOREDUMP(wait_status)) text += ", core dumped";
  return text;
}

std::optional<Process> find_process(int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");  // "pid (name) state ppid ..."
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const size_t open = line.find('(');
  const size_t close = line.rfind(')');  // the name may itself hold spaces and parentheses
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  Process process{0, '?', line.substr(open + 1, close - open - 1)};
  std::istringstream rest(line.substr(close + 1));
  rest >> process.state >> process.parent;
  return rest.fail() ? std::nullopt : std::optional(process);
}

Processes living_descendants(const std::set<pid_t>& except) {
  const Processes processes = read_processes();
  const pid_t self = ::getpid();
  Processes out;

  for (const auto& [pid, process] : processes) {
    if (pid == self || except.count(pid) != 0 || process.state == 'Z' || process.state == 'X') {
      continue;
    }
    pid_t ancestor = process.parent;
    // Bounded: the table was not read at one instant, so parents may seem to go round
    // in a circle.
    for (size_t steps = 0;
        ancestor != self && except.count(ancestor) == 0 && steps < processes.size(); ++steps) {
      const auto found = processes.find(ancestor);
      if (found == processes.end()) break;
      ancestor = found->second.parent;
    }
    if (ancestor == self) out[pid] = process;
  }

  return out;
}

std::set<pid_t> inherited_children() {
  std::set<pid_t> out;
  for (const auto& [pid, process] : read_processes()) {
    if (process.parent == ::getpid()) out.insert(pid);
  }
  return out;
}

SignalQueue::SignalQueue() {
  sigset_t wanted;
  sigemptyset(&wanted);

  // A parent may have left SIGCHLD ignored; then the kernel would reap the ranks, and the
  // launcher could not tell how they ended.
  ::signal(SIGCHLD, SIG_DFL);
  for (const int signal :
      {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH, SIGCHLD}) {
    // Signals that nohup and the like made ignored stay ignored, here and in the ranks.
    if (!ignored(signal)) sigaddset(&wanted, signal);
  }

  ::sigprocmask(SIG_BLOCK, &wanted, &former_);
  ::signal(SIGPIPE, SIG_IGN);

  // A read from the terminal by a background job fails instead of stopping the job.
  ::signal(SIGTTIN, SIG_IGN);
  fd_ = UniqueFd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) throw std::system_error(errno, std::generic_category(), "signalfd");
}

SignalQueue::~SignalQueue() { ::sigprocmask(SIG_SETMASK, &former_, nullptr); }

std::vector<int> SignalQueue::take() const {
  std::vector<int> out;
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    out.push_back(static_cast<int>(info.ssi_signo));
  }
  return out;
}

bool asks_to_end(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

Warden::Warden(const std::string& directory) {
  Pipe pipe = make_pipe();
  pipe_ = std::move(pipe.write_end);
  pid_ = ::fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) {
    pipe_.reset();
    watch_over(pipe.read_end.get(), directory);
  }
}

Warden::~Warden() {
  tell(leave, 0);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Warden::tell(int what, pid_t process_group) const {
  const Frame frame{what, process_group};
  // A warden that was killed is the loss of the second safety net only; the launcher
  // ends its ranks itself.
  [[maybe_unused]] const ssize_t sent = ::write(pipe_.get(), &frame, sizeof frame);
}

void Warden::watch(pid_t process_group) { tell(watch_group, process_group); }

void Warden::forget(pid_t process_group) { tell(forget_group, process_group); }

Captured capture(const std::vector<std::string>& command, std::chrono::milliseconds limit) {
  SpawnRequest request;
  request.command = command;
  Spawned process = spawn(request);
  Captured out;
  const auto end = std::chrono::steady_clock::now() + limit;

  while (process.out || process.err) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now())
            .count();
    pollfd streams[2] = {{process.out.get(), POLLIN, 0}, {process.err.get(), POLLIN, 0}};
    if (::poll(streams, 2, static_cast<int>(std::max<long long>(left, 0))) == 0) {
      ::kill(-process.pid, SIGKILL);
      wait_for(process.pid);
      out.status = -1;
      return out;
    }
    if (streams[0].revents != 0 && !read_into(process.out, out.out)) process.out.reset();
    if (streams[1].revents != 0 && !read_into(process.err, out.err)) process.err.reset();
  }

  out.status = shell_status(wait_for(process.pid));
  return out;
}
}  // namespace symm::tool
