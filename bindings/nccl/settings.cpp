#include "bindings/nccl/settings.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace symm::nccl {
const char* variable(const char* name) noexcept {
  const char* const value = secure_getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

bool watching() noexcept {
  static const bool on = [] {
    const char* const mode = variable("SYMM_NCCL_MODE");
    return mode == nullptr || std::strcmp(mode, "off") != 0;
  }();
  return on;
}

void log(const char* format, ...) noexcept {
  static const char* const where = variable("SYMM_NCCL_LOG");
  if (where == nullptr) return;

  char line[1024];
  const int head = std::snprintf(line, sizeof line, "symm_nccl %d: ", getpid());
  va_list arguments;
  va_start(arguments, format);
  const int body =
      std::vsnprintf(line + head, sizeof line - static_cast<size_t>(head), format, arguments);
  va_end(arguments);
  const size_t length = std::min(static_cast<size_t>(head + std::max(body, 0)), sizeof line - 1);
  line[length] = '\n';

  // A line goes by one call, so that lines of several processes do not mix.
  const bool to_stderr = std::strcmp(where, "stderr") == 0;
  const int fd =
      to_stderr ? STDERR_FILENO : open(where, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const ssize_t written = write(fd, line, length + 1);
  static_cast<void>(written);
  if (!to_stderr) close(fd);
}
}  // namespace symm::nccl
