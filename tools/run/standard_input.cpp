#include "tools/run/standard_input.hpp"
#include <fcntl.h>
#include <cerrno>
#include <system_error>

namespace symm::tool {
StandardInput::StandardInput() {
  if (::isatty(STDIN_FILENO) == 0) return;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  pipe_read_ = UniqueFd(ends[0]);
  pipe_write_ = UniqueFd(ends[1]);
  ::fcntl(pipe_write_.get(), F_SETFL, O_NONBLOCK);
}

int StandardInput::readable_fd() const {
  const bool wanted = pipe_write_ && !ended_ && queue_.empty();
  return wanted && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp() ? STDIN_FILENO : -1;
}

void StandardInput::read_some() {
  char buffer[4096];
  const ssize_t size = ::read(STDIN_FILENO, buffer, sizeof buffer);
  if (size > 0) queue_.assign(buffer, static_cast<size_t>(size));
  if (size == 0) ended_ = true;
  if (size < 0 && errno != EINTR && errno != EAGAIN && errno != EIO) ended_ = true;  // EIO: moved to the background meanwhile
  if (ended_) close();
}

void StandardInput::write_some() {
  const ssize_t size = ::write(pipe_write_.get(), queue_.data(), queue_.size());
  if (size > 0) queue_.erase(0, static_cast<size_t>(size));
  if (size < 0 && errno != EAGAIN && errno != EINTR) {  // rank 0 closed its input
    queue_.clear();
    close();
  }
}
}  // namespace symm::tool
