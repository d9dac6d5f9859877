#include "core/base/fd.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/closed_streams.hpp"
#include "core/base/peer_fd.hpp"
#include "tests/support/process.hpp"

namespace symm {
namespace {
struct Maker {
  const char* name;
  std::function<int()> make;
};

const std::vector<Maker>& makers() {
  static const std::vector<Maker> all{
      {"memfd", [] { return memfd_create("test", MFD_CLOEXEC); }},
      {"file", [] { return open("/proc/self/stat", O_RDONLY | O_CLOEXEC); }},
      {"socket", [] { return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0); }},
      {"epoll", [] { return epoll_create1(EPOLL_CLOEXEC); }},
      {"timerfd", [] { return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC); }},
      {"eventfd", [] { return eventfd(0, EFD_CLOEXEC); }},
      {"pidfd", [] { return static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)); }},
      {"copy", [] { return fcntl(Fd(open("/", O_PATH | O_CLOEXEC)).get(), F_DUPFD_CLOEXEC, 0); }},
  };
  return all;
}

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

// Closes the standard streams whose bits are set.
void close_streams(int which) {
  for (int stream = 0; stream < 3; ++stream) {
    if ((which >> stream & 1) != 0) close(stream);
  }
}

TEST(Descriptors, AreNeverThoseOfStandardStreams) {
  for (int closed = 1; closed < 8; ++closed) {
    support::Process child([closed] {
      close_streams(closed);
      std::string faults;
      for (const Maker& maker : makers()) {
        Fd fd(maker.make());
        if (!fd) continue;  // this kernel has none
        if (fd.get() <= 2) faults += std::string(maker.name) + " is a stream\n";
        if (fcntl(fd.get(), F_GETFD) != FD_CLOEXEC) faults += std::string(maker.name) + " stays\n";
        fd.reset();
      }
      for (int stream = 0; stream < 3; ++stream) {
        if (is_open(stream) == ((closed >> stream & 1) != 0)) faults += "a stream has changed\n";
      }
      return faults;
    });
    EXPECT_EQ(child.result(), "") << "closed: " << closed;
  }
}

TEST(Descriptors, AreRefusedWhenOnlyTheNumbersOfStreamsAreFree) {
  support::Process child([] {
    close(0);
    const rlimit few{3, 3};
    setrlimit(RLIMIT_NOFILE, &few);
    errno = 0;
    const Fd fd(eventfd(0, EFD_CLOEXEC));
    const int error = errno;
    if (fd || is_open(0)) return std::string("there is one");
    return error == EMFILE ? "" : "errno " + std::to_string(error);
  });
  EXPECT_EQ(child.result(), "");
}

// What a library that knows nothing of closed streams opens is none of them, and what the program
// writes to a closed stream gets lost as before.
TEST(Descriptors, OfForeignLibrariesAreNoStreams) {
  support::Process child([]() -> std::string {
    close_streams(5);
    auto first = hold_closed_streams();
    close_streams(2);
    const auto second = hold_closed_streams();
    first.reset();
    for (const Maker& maker : makers()) {
      const int foreign = maker.make();
      if (foreign >= 0 && foreign <= STDERR_FILENO) return std::string(maker.name) + " is a stream";
      close(foreign);
    }
    char byte = 0;
    for (int stream = 0; stream < 3; ++stream) {
      if (write(stream, "x", 1) != -1 || errno != EBADF) return "a stream takes text";
      if (read(stream, &byte, 1) != -1 || errno != EBADF) return "a stream has text";
    }
    return "";
  });
  EXPECT_EQ(child.result(), "");
}

TEST(Descriptors, OfForeignLibrariesLeaveStreamsAsTheyWere) {
  support::Process child([]() -> std::string {
    close_streams(3);
    auto held = hold_closed_streams();
    const int programs_own = eventfd(0, EFD_CLOEXEC);
    if (dup2(programs_own, 0) != 0) return "the program cannot open its stream";
    held.reset();
    if (!is_open(0)) return "the program's own stream was closed";
    if (is_open(1)) return "a closed stream is open";
    return is_open(2) ? "" : "an open stream was closed";
  });
  EXPECT_EQ(child.result(), "");
}

// A program closed what it had not opened, and has another file of the same kind there now.
TEST(Descriptors, ThatTheProgramReplacedAreLeftToIt) {
  for (const Maker& maker : makers()) {
    const std::string name = maker.name;
    if (name == "copy" || name == "file" || name == "pidfd") continue;  // one inode for both
    Fd fd(maker.make());
    if (!fd) continue;
    const int number = fd.get();
    const int programs_own = maker.make();
    ASSERT_EQ(dup2(programs_own, number), number);
    fd.reset();
    EXPECT_TRUE(is_open(number)) << maker.name;
    close(number);
    close(programs_own);
  }
}

TEST(Descriptors, ThatTheProgramReplacedAreLeftToItsChildren) {
  PeerFd fd(Fd(eventfd(0, EFD_CLOEXEC)));
  const PeerFd own(Fd(eventfd(0, EFD_CLOEXEC)));
  const int programs_own = eventfd(0, EFD_CLOEXEC);
  ASSERT_EQ(dup2(programs_own, fd.get()), fd.get());
  support::Process child([&] {
    PeerFd::close_all_in_child();
    if (is_open(own.get())) return "its own is open";
    return is_open(fd.get()) ? "" : "the program's is closed";
  });

  EXPECT_EQ(child.result(), "");
  const int number = fd.get();
  fd.reset();
  EXPECT_TRUE(is_open(number));
  close(number);
  close(programs_own);
}
}  // namespace
}  // namespace symm
