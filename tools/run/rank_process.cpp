#include "tools/run/rank_process.hpp"
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include "tools/text.hpp"

namespace symm::tool {
namespace {
struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& text : strings) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// In the child. Reports the error of exec through `report` and never returns.
[[noreturn]] void become(const SpawnRequest& request, pid_t launcher, int out, int err, int report) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(128 + SIGKILL);  // it died before the line above
  const int input = request.standard_input >= 0 ? request.standard_input : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(input, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (request.processors) ::sched_setaffinity(0, sizeof(cpu_set_t), &*request.processors);
  ::signal(SIGPIPE, SIG_DFL);
  ::signal(SIGTTIN, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const auto arguments = pointers(request.command);
  const auto environment = pointers(request.environment);
  if (request.announce) request.announce(::getpid(), true);
  ::execvpe(arguments[0], arguments.data(), environment.data());
  const int error = errno;
  if (request.announce) request.announce(::getpid(), false);
  [[maybe_unused]] const ssize_t sent = ::write(report, &error, sizeof error);
  ::_exit(127);
}

void raise_exec_error(const std::string& program, int error) {
  const bool missing = error == ENOENT || error == ENOTDIR;
  std::string message = "cannot run '" + program + "': " + std::strerror(error);
  if (missing && program.find('/') == std::string::npos)
    message += " (not in PATH; a program in this directory is written ./" + program + ")";
  if (error == ENOEXEC) message += " (neither a binary for this machine nor a script with a #! line)";
  throw ExecError(message, missing ? 127 : 126);
}
}  // namespace

Spawned spawn(const SpawnRequest& request) {
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  Pipe report = make_pipe();
  const pid_t launcher = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) become(request, launcher, out.write_end.get(), err.write_end.get(), report.write_end.get());
  ::setpgid(pid, pid);  // in both, so that a signal sent from now on finds the group
  report.write_end.reset();
  int error = 0;
  ssize_t size = 0;
  while ((size = ::read(report.read_end.get(), &error, sizeof error)) < 0 && errno == EINTR) {}
  if (size == static_cast<ssize_t>(sizeof error)) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {}
    raise_exec_error(request.command[0], error);
  }
  for (const UniqueFd* fd : {&out.read_end, &err.read_end}) ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  return {pid, std::move(out.read_end), std::move(err.read_end)};
}

int shell_status(int wait_status) { return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status); }

std::string describe_end(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return "exited with status " + std::to_string(WEXITSTATUS(wait_status));
  std::string text = "was killed by " + signal_name(WTERMSIG(wait_status));
  if (WCOREDUMP(wait_status)) text += ", core dumped";
  return text;
}
}  // namespace symm::tool
