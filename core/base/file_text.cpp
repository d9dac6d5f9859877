// Reads a file by a descriptor that is no standard stream, which a std::ifstream might be.
#include "core/base/file_text.hpp"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <sstream>
#include <string>
#include <utility>

#include "core/base/fd.hpp"

namespace symm {
std::istringstream text_of_file(const std::string& path) {
  std::string text;
  const Fd file = make_fd(::open, path.c_str(), O_RDONLY | O_CLOEXEC);
  if (!file) return std::istringstream(std::move(text));

  // The size of such a file is not known before it is read.
  std::array<char, 4096> piece{};
  for (;;) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::istringstream(std::move(text));
    text.append(piece.data(), static_cast<size_t>(got));
  }
}
}  // namespace symm
