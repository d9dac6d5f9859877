// SPDX-License-Identifier: Apache-2.0
#include "tools/run/output.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace symm::tool {

void Output::write_some() {
  if (queue_.empty()) return;
  const ssize_t written = ::write(fd_, queue_.data(), std::min(queue_.size(), write_size));
  if (written >= 0) {
    queue_.erase(0, static_cast<size_t>(written));
  } else if (errno != EAGAIN && errno != EINTR) {
    broken_ = true;
    queue_.clear();
  }
}

}  // namespace symm::tool
