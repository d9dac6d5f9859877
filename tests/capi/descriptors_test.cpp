// The descriptors of the library, and those of a program that closes descriptors on its own.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/group.hpp"
#include <symm/symm.hpp>

namespace support {
namespace {
struct Tokens {
  Token of_rank[2];
};

// All that the library keeps descriptors for, on one of two ranks that are processes.
class Everything {
 public:
  Everything(const std::string& meeting, int rank, int log, Tokens& tokens)
      : group_(create({meeting, ""}, rank, 2)), block_(allocate(group_, 4096)) {
    adopted_ = memfd_create("adopted", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(ftruncate(adopted_, 4096), 0);
    EXPECT_EQ(fcntl(adopted_, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    buffer_ = group_.adopt_fd(adopted_, 0, 4096);
    close(adopted_);

    check(symm_log_to_fd(log, SYMM_LOG_ERROR, &listener_));
    pair_ = group_.split(0);
    threads_ = create({"thread://descriptors", ""}, 0, 1);
    group_.failure_fd();
    expect_sum(group_);

    tokens.of_rank[rank] = make_token(block_.at<std::byte>(rank), 4096);
    barrier();
    import_.emplace(tokens.of_rank[1 - rank]);
    barrier();
  }
  ~Everything() { symm_log_remove_listener(listener_); }
  Everything(Everything&&) = delete;

  void barrier() const { check(symm_barrier(group_.get(), nullptr, 0, 0, nullptr, nullptr)); }

 private:
  Group group_;
  Block block_;
  Buffer buffer_;
  Group pair_;
  Group threads_;
  std::optional<symm::Import> import_;
  uint64_t listener_ = 0;
  int adopted_ = -1;
};

struct Descriptors : testing::Test {
  void SetUp() override { setenv("SYMM_IPC_DIRECTORY", sockets_.path().c_str(), 1); }
  void TearDown() override { unsetenv("SYMM_IPC_DIRECTORY"); }
  TemporaryDirectory sockets_;
  Shared<Tokens> tokens_;
};

// A thread of the library may hold the number of a closed stream for a moment, by a file that can
// be neither read nor written; then the stream still counts as closed.
std::set<int> open_descriptors(int end = 1024) {
  std::set<int> open;
  for (int fd = 0; fd < end; ++fd) {
    const int flags = fcntl(fd, F_GETFL);
    const bool is_held = fd <= STDERR_FILENO && (flags & O_PATH) != 0;
    if (flags >= 0 && !is_held) open.insert(fd);
  }
  return open;
}

// Text that the program writes to its streams must not land in shared memory.
TEST_F(Descriptors, OfAProgramWithoutStandardStreams) {
  for (int closed = 1; closed < 8; ++closed) {
    const Bootstrap meeting;
    Processes ranks(2, [&](int rank) {
      const int log = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
      for (int stream = 0; stream < 3; ++stream) {
        if ((closed >> stream & 1) != 0) close(stream);
      }
      const std::set<int> before = open_descriptors(3);
      {
        const Everything all(meeting.processes().bootstrap, rank, log, *tokens_);
        if (open_descriptors(3) != before) return "a stream is the library's";
        all.barrier();
      }
      return open_descriptors(3) == before ? "" : "a stream has changed";
    });
    for (Process& rank : ranks) {
      EXPECT_EQ(rank.result(), "") << "closed: " << closed;
    }
  }
}

// As daemons do by closefrom(3), and then open files of their own.
TEST_F(Descriptors, ThatAProgramClosedAreTheProgramsAtRelease) {
  const std::vector<int (*)()> kinds{
      [] { return memfd_create("own", MFD_CLOEXEC); },
      [] { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); },
      [] { return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); },
  };
  for (const auto& make : kinds) {
    const Bootstrap meeting;
    Processes ranks(2, [&](int rank) {
      const int own = make();
      const std::set<int> before = open_descriptors();
      auto all = std::make_unique<Everything>(
          meeting.processes().bootstrap, rank, STDERR_FILENO, *tokens_);
      std::set<int> taken;
      for (const int fd : open_descriptors()) {
        if (before.contains(fd)) continue;
        dup2(own, fd);
        taken.insert(fd);
      }

      all.reset();
      for (const int fd : open_descriptors()) {
        taken.erase(fd);
      }
      return taken.empty() ? std::string() : std::to_string(taken.size()) + " are closed";
    });
    for (Process& rank : ranks) {
      EXPECT_EQ(rank.result(), "");
    }
  }
}
}  // namespace
}  // namespace support
