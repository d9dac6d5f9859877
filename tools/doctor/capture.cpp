#include "tools/doctor/capture.hpp"
#include <poll.h>
#include <sys/wait.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include "tools/run/rank_process.hpp"

namespace symm::tool {
namespace {
// False at the end of the stream.
bool read_into(const UniqueFd& fd, std::string& text) {
  char buffer[4096];
  const ssize_t size = ::read(fd.get(), buffer, sizeof buffer);
  if (size > 0) text.append(buffer, static_cast<size_t>(size));
  return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
}

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  return status;
}
}  // namespace

Captured capture(const std::vector<std::string>& command, std::chrono::milliseconds limit) {
  SpawnRequest request;
  request.command = command;
  for (char** entry = environ; *entry != nullptr; ++entry) request.environment.emplace_back(*entry);
  Spawned process = spawn(request);
  Captured out;
  const auto end = std::chrono::steady_clock::now() + limit;
  while (process.out || process.err) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
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
