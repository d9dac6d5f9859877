#include "core/base/fd.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/closed_streams.hpp"
#include "core/base/peer_fd.hpp"
#include "tests/support/process.hpp"

namespace symm {
namespace {
struct DescriptorMaker {
  const char* name;
  std::function<int()> make;
};

const std::vector<DescriptorMaker>& makers() {
  static const std::vector<DescriptorMaker> all{
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
      for (const DescriptorMaker& maker : makers()) {
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

// Another thread may write to a closed stream between the call that makes a descriptor and its end.
TEST(Descriptors, AreMadeWhileStreamsAreHeld) {
  for (int closed = 0; closed < 8; ++closed) {
    support::Process child([closed] {
      close_streams(closed);
      std::string faults;
      for (const DescriptorMaker& maker : makers()) {
        const Fd fd = make_fd([&] {
          const int made = maker.make();
          if (made >= 0 && made <= 2) faults += std::string(maker.name) + " was a stream\n";
          for (int stream = 0; stream < 3; ++stream) {
            const bool is_closed = (closed >> stream & 1) != 0;
            if (is_closed && support::takes_text(stream)) faults += "a stream takes text\n";
          }
          return made;
        });
        for (int stream = 0; stream < 3; ++stream) {
          if (is_open(stream) == ((closed >> stream & 1) != 0)) faults += "a stream has changed\n";
        }
      }

      errno = 0;
      if (make_fd(::open, "/no/such/file", O_RDONLY) || errno != ENOENT) faults += "errno is lost";
      return faults;
    });
    EXPECT_EQ(child.result(), "") << "closed: " << closed;
  }
}

// Threads that make descriptors at a time share what they hold: the last one lets go. What the
// program opens meanwhile is its own.
TEST(Descriptors, OfManyThreadsAreNoStreams) {
  support::Process child([]() -> std::string {
    close_streams(3);
    std::atomic<bool> stop{false};
    std::atomic<int> taken{0};
    std::atomic<int> lost{0};
    std::vector<std::thread> program;
    program.emplace_back([&] {
      while (!stop)
        taken += support::takes_text(STDOUT_FILENO) ? 1 : 0;
    });
    program.emplace_back([&] {
      while (!stop) {
        // Not as a stream, where the text above would be its own.
        const int own = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
        lost += is_open(own) && close(own) == 0 ? 0 : 1;
      }
    });

    std::vector<std::thread> library;
    for (int i = 0; i < 4; ++i) {
      library.emplace_back([&] {
        for (int k = 0; k < 2000; ++k) {
          const Fd fd = make_fd([&] {
            const int made = memfd_create("test", MFD_CLOEXEC);
            taken += made <= STDERR_FILENO ? 1 : 0;
            return made;
          });
          struct stat status{};
          lost += fstat(fd.get(), &status) == 0 && status.st_size == 0 ? 0 : 1;
        }
      });
    }
    for (std::thread& thread : library) {
      thread.join();
    }
    stop = true;
    for (std::thread& thread : program) {
      thread.join();
    }

    if (taken != 0) return std::to_string(taken) + " were streams, or took their text";
    if (lost != 0) return std::to_string(lost) + " were lost or written to";
    return is_open(0) || is_open(1) || !is_open(2) ? "the streams have changed" : "";
  });
  EXPECT_EQ(child.result(), "");
}

// What the program opens in place of a stream while the library makes a descriptor.
TEST(Descriptors, OfTheProgramInPlaceOfAStreamStayItsOwn) {
  support::Process child([]() -> std::string {
    close_streams(1);
    const int own = eventfd(0, EFD_CLOEXEC);
    const Fd fd = make_fd([&] {
      // The first is taken by the program as it is, the second after it closed what is there.
      dup2(own, 0);
      close_streams(2);
      return memfd_create("test", MFD_CLOEXEC);
    });
    if (!is_open(0)) return "the program's stream was closed";
    if (is_open(1)) return "a stream that the program closed is open";
    return fd && fd.get() > 2 ? "" : "there is none, or it is a stream";
  });
  EXPECT_EQ(child.result(), "");
}

TEST(Descriptors, AChildHasItsStreamsClosed) {
  support::Process child([] {
    close_streams(3);
    std::string said;
    {
      const ClosedStreams held;
      support::Process grandchild([]() -> std::string {
        if (is_open(0) || is_open(1)) return "it has what its parent held";
        const Fd fd = make_fd(eventfd, 0, EFD_CLOEXEC);
        if (is_open(0) || is_open(1)) return "it holds for too long";
        return fd.get() > 2 ? "" : "its descriptor is a stream";
      });
      said = grandchild.result();
      if (!is_open(0) || !is_open(1)) said += "the parent holds no more";
    }
    return is_open(0) || is_open(1) ? said + "the parent holds for too long" : said;
  });
  EXPECT_EQ(child.result(), "");
}

TEST(Descriptors, AreRefusedWhenOnlyTheNumbersOfStreamsAreFree) {
  support::Process child([] {
    close(0);
    const rlimit few{3, 3};
    setrlimit(RLIMIT_NOFILE, &few);
    errno = 0;
    if (make_fd(eventfd, 0, EFD_CLOEXEC) || errno != EMFILE || is_open(0))
      return std::string("one");
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
    for (const DescriptorMaker& maker : makers()) {
      const int foreign = maker.make();
      if (foreign >= 0 && foreign <= STDERR_FILENO) return std::string(maker.name) + " is a stream";
      close(foreign);
    }
    char byte = 0;
    for (int stream = 0; stream < 3; ++stream) {
      if (support::takes_text(stream)) return "a stream takes text";
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
  for (const DescriptorMaker& maker : makers()) {
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

// Another thread may have taken the room since this one asked for it. A signal that the program has
// kept pending stays.
TEST(FileSizeLimit, IsAnErrorAndNoSignal) {
  for (const bool is_kept : {false, true}) {
    support::Process child([&]() -> std::string {
      const Fd file(memfd_create("limited", MFD_CLOEXEC));
      const rlimit limit{8, 8};
      if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return "there is no limit";
      if (write(file.get(), "12345678", 8) != 8) return "there is no room";

      sigset_t signal;
      sigemptyset(&signal);
      sigaddset(&signal, SIGXFSZ);
      if (is_kept) pthread_sigmask(SIG_BLOCK, &signal, nullptr);
      if (is_kept) raise(SIGXFSZ);
      {
        const NoFileSizeSignal no_signal;
        if (write(file.get(), "9", 1) >= 0 || errno != EFBIG) return "no error";
      }

      sigset_t pending;
      sigpending(&pending);
      if ((sigismember(&pending, SIGXFSZ) == 1) != is_kept) return "another signal is pending";
      return "right";
    });
    EXPECT_EQ(child.result(), "right") << is_kept;
  }
}
}  // namespace
}  // namespace symm
