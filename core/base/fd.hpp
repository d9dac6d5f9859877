// A file descriptor that closes itself.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <utility>

namespace symm {
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~Fd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset(int fd = -1) noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// A descriptor to be given up when the process has no other left: then a connection can at least be
// accepted and refused.
inline Fd spare_descriptor() noexcept { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

// Reads the first `size` bytes of a file, or as many as it has, whatever interrupts or shortens a
// call. Returns -1 if it fails; errno says why.
inline ssize_t read_whole(int fd, void* to, size_t size) noexcept {
  size_t done = 0;
  while (done < size) {
    const ssize_t got =
        ::pread(fd, static_cast<char*>(to) + done, size - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;

    done += static_cast<size_t>(got);
  }
  return static_cast<ssize_t>(done);
}

// Writes all bytes, whatever interrupts or shortens a call. False if it fails; errno says why.
inline bool write_whole(int fd, const void* from, size_t size) noexcept {
  for (size_t done = 0; done < size;) {
    const ssize_t written = ::write(fd, static_cast<const char*>(from) + done, size - done);
    if (written < 0 && errno == EINTR) continue;
    if (written == 0) errno = ENOSPC;
    if (written <= 0) return false;
    done += static_cast<size_t>(written);
  }
  return true;
}
}  // namespace symm
