// A file descriptor that closes itself. Every descriptor of the library is one from the call on
// that makes it, and never has the number of a standard stream, not for a moment: the lint rule
// `descriptors` finds those that are not made so.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "core/base/closed_streams.hpp"

namespace symm {
// The file to which a number leads. By this the library knows whether a number is still its
// own: a program may close descriptors that it did not open (closefrom()), and then gets the
// same numbers for its own files.
struct OpenFile {
  uint64_t device = 0;
  uint64_t inode = 0;
  // eventfd, timerfd, epoll and the like have one inode for all, which has no type. What tells the
  // library's files of this kind from the program's is a mark on the open file.
  bool shares_inode = false;
  int mark = 0;

  // All zero if the kernel does not say, or `fd` is not open.
  static OpenFile behind(int fd) noexcept;
  bool operator==(const OpenFile&) const = default;
};

class Fd {
 public:
  Fd() = default;
  // Takes what a call that makes a descriptor has returned; -1 leaves this empty, and errno as it
  // is. The call is made through make_fd(), or while a ClosedStreams lives: a program may have
  // closed its standard streams. A descriptor that has the number of one all the same, because the
  // program closed it during the call, is replaced by a higher one. This is empty if there is none;
  // errno says why.
  explicit Fd(int made) noexcept;
  // Takes back what release() gave away, when it was `file`.
  Fd(int released, const OpenFile& file) noexcept : fd_(released), file_(file) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)), file_(other.file_) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
      file_ = other.file_;
    }
    return *this;
  }
  ~Fd() { reset(); }

  int get() const noexcept { return fd_; }
  const OpenFile& file() const noexcept { return file_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  // Closes the descriptor, unless the number leads to another file by now.
  void reset() noexcept;

 private:
  int fd_ = -1;
  OpenFile file_;
};

// Makes a descriptor by a call such as open(), which gets the arguments. Empty if the call fails;
// errno says why.
template <class Call, class... Arguments>
Fd make_fd(Call call, Arguments... arguments) {
  const ClosedStreams held;
  return Fd(static_cast<int>(call(arguments...)));
}

// A descriptor to be given up when the process has no other left: then a connection can at least be
// accepted and refused.
inline Fd spare_descriptor() noexcept { return make_fd(::open, "/dev/null", O_RDONLY | O_CLOEXEC); }

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

// The largest file that this process may make (RLIMIT_FSIZE). Beyond this limit the kernel would
// not only refuse to write but also end the process by SIGXFSZ.
uint64_t file_size_limit() noexcept;
// Whether the next `size` bytes that are written end within that limit. Only plain files have one.
// If not, errno is EFBIG. Another thread or process may take the room before this one writes.
bool has_room(int fd, size_t size) noexcept;

// While it lives, a write of this thread beyond that limit is an error, EFBIG, and no signal.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal() noexcept;
  ~NoFileSizeSignal();
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;

 private:
  bool is_blocked_ = false;   // here
  bool was_pending_ = false;  // a signal that is not this thread's doing, which stays
  sigset_t before_{};
};

// Writes all bytes, whatever interrupts or shortens a call, or none if the limit on file sizes
// forbids that. False if it fails; errno says why.
bool write_whole(int fd, const void* from, size_t size) noexcept;
}  // namespace symm
