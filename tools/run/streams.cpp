// Carries the ranks' output and input in the turns of the launcher's loop, whole lines at a
// time, so that a reader that does not keep up stops no other rank.
#include "tools/run/streams.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>

#include "tools/unique_fd.hpp"

namespace symm::tool {
void LineAssembler::emit(std::string_view line, char end, std::string& out) const {
  if (terminal_) out += "\033[2K";  // what a progress line left behind
  out += prefix_;
  out += line;
  out += end;
}

// A line that the rank has not ended, and perhaps never will.
void LineAssembler::emit_without_end(std::string_view line, std::string& out) const {
  if (verbatim_) {
    out += line;
  } else {
    emit(line, '\n', out);
  }
}

void LineAssembler::feed(std::string_view bytes, std::string& out) {
  const char* const ends = terminal_ ? "\n\r" : "\n";
  while (!bytes.empty()) {
    const size_t end = bytes.find_first_of(ends);
    if (end == std::string_view::npos) {
      partial_ += bytes;
      while (partial_.size() > longest_line) {
        emit_without_end(std::string_view(partial_).substr(0, longest_line), out);
        partial_.erase(0, longest_line);
      }
      return;
    }

    partial_ += bytes.substr(0, end);

    const bool windows =
        terminal_ && bytes[end] == '\r' && end + 1 < bytes.size() && bytes[end + 1] == '\n';
    if (bytes[end] == '\n' || windows) {
      emit(partial_, '\n', out);
    } else if (!partial_.empty()) {
      emit(partial_, '\r', out);
    }

    partial_.clear();
    bytes.remove_prefix(end + (windows ? 2 : 1));
  }
}

void LineAssembler::finish(std::string& out) {
  if (!partial_.empty()) emit_without_end(partial_, out);
  partial_.clear();
}

namespace {
// Never waits for a reader: standard output and error may be one pipe, whose last free page the
// other has just taken, and other processes may write to it as well.
ssize_t write_now(int fd, const char* bytes, size_t size) {
  pollfd writable{fd, POLLOUT, 0};
  if (::poll(&writable, 1, 0) == 0) {
    errno = EAGAIN;
    return -1;
  }
  const iovec part{const_cast<char*>(bytes), size};
  const ssize_t written = ::pwritev2(fd, &part, 1, -1, RWF_NOWAIT);
  if (written >= 0 || errno == EINTR || errno == EPIPE) return written;
  struct stat status{};
  if (errno == EAGAIN && !(::fstat(fd, &status) == 0 && S_ISREG(status.st_mode))) return -1;
  return ::write(fd, bytes, size);  // older kernels, and what is never full
}
}  // namespace

void Output::write_some() {
  if (queue_.empty()) return;
  const ssize_t written = write_now(fd_, queue_.data(), std::min(queue_.size(), write_size));
  if (written >= 0) {
    queue_.erase(0, static_cast<size_t>(written));
  } else if (errno != EAGAIN && errno != EINTR) {
    broken_ = true;
    queue_.clear();
  }
}

StandardInput::StandardInput() {
  if (::isatty(STDIN_FILENO) == 0) return;
  pipe_ = make_pipe();
  ::fcntl(pipe_.write_end.get(), F_SETFL, O_NONBLOCK);
}

int StandardInput::readable_fd() const {
  const bool wanted = pipe_.write_end && !ended_ && queue_.empty();
  return wanted && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp() ? STDIN_FILENO : -1;
}

void StandardInput::read_some() {
  char buffer[4096];
  const ssize_t size = ::read(STDIN_FILENO, buffer, sizeof buffer);
  if (size > 0) queue_.assign(buffer, static_cast<size_t>(size));
  if (size == 0) ended_ = true;
  // EIO: moved to the background meanwhile
  if (size < 0 && errno != EINTR && errno != EAGAIN && errno != EIO) ended_ = true;
  if (ended_) close();
}

void StandardInput::write_some() {
  const ssize_t size = ::write(pipe_.write_end.get(), queue_.data(), queue_.size());
  if (size > 0) queue_.erase(0, static_cast<size_t>(size));
  if (size < 0 && errno != EAGAIN && errno != EINTR) {  // rank 0 closed its input
    queue_.clear();
    close();
  }
}
}  // namespace symm::tool
