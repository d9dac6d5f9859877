// Exporters and importers in trouble: a logger that waits, a crowd that connects, no descriptors,
// an exit, a system call or an allocation that fails.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "symm/symm.hpp"
#include "tests/capi/ipc/sharing.hpp"

namespace support {
namespace {
std::atomic<int> sendmsg_errno{0};   // the error of the next call; 0: none
std::atomic<long> mallocs_left{-1};  // until one fails; negative: none does
}  // namespace
}  // namespace support

// The library's calls come here, too.
extern "C" [[gnu::visibility("default")]] ssize_t sendmsg(
    int fd, const msghdr* message, int flags) {
  if (const int error = support::sendmsg_errno.exchange(0)) {
    errno = error;
    return -1;
  }
  return syscall(SYS_sendmsg, fd, message, flags);
}
#if !defined(__SANITIZE_ADDRESS__)
extern "C" void* __libc_malloc(size_t);

extern "C" [[gnu::visibility("default")]] void* malloc(size_t bytes) {
  if (support::mallocs_left >= 0 && support::mallocs_left.fetch_sub(1) == 0) return nullptr;
  return __libc_malloc(bytes);
}
#endif

namespace support {
namespace {
class Edges : public Sharing {
 protected:
  std::string socket_path() const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory.path())) {
      if (entry.is_socket()) return entry.path();
    }
    return "";
  }
};

int knock(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  while (fd >= 0 && connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    if (errno != EAGAIN) break;
    usleep(100);
  }
  return fd;
}

// A logger usually has a lock, and the thread that holds the lock may call the library.
TEST_F(Edges, AListenerThatWaitsHoldsNobodyUp) {
  static std::mutex logger;
  static std::atomic<int> heard;
  static std::atomic<bool> waits;
  Process* victim = nullptr;
  exporter([&] {
    const Owned owned = offer(4096);
    const auto listen = [](void*, symm_log_level_t, const char* message) {
      if (std::string(message).find("is gone with 1 leases") == std::string::npos) return;
      waits = true;
      const std::lock_guard lock(logger);
      ++heard;
    };
    const symm::LogListener listener(+listen, nullptr, SYMM_LOG_INFO);
    {
      const std::lock_guard lock(logger);
      pass();
      expect_eventually("the death is logged", [] { return waits.load(); });
      EXPECT_EQ(ipc_stats().leases, 0U);
      Token again = make_token(owned.data, 64);
      import(again);
      // Nor is the thread held up that hears of deaths.
      Process other([&] { EXPECT_EQ(outcome_of_import(again).message, ""); });
      other.expect_success("another importer");
      EXPECT_EQ(heard, 0);
    }
    expect_eventually("it is heard", [] { return heard == 1; });
  });

  victim = &importer([&] {
    const Import held = import(facts->token);
    facts->step = 100;
    sleep_for_ever();
  });

  wait_for(facts->step, 100);
  victim->kill(SIGKILL);
  gone(*victim);
  facts->done = 1;
}

TEST_F(Edges, ACrowdThatSaysNothingIsBounded) {
  constexpr size_t kCrowd = 700;
  exporter([&] {
    const Owned owned = offer(4096);
    const size_t before = open_descriptors();
    pass();
    EXPECT_LE(open_descriptors(), before + 2 * 256 + 8);
    EXPECT_EQ(outcome_of_import(facts->token).message, "");
    EXPECT_GE(ipc_stats().rejected_connections, kCrowd - 256);
    pass();
    expect_eventually("they are gone", [&] { return open_descriptors() <= before + 2; });
  });

  importer([&] {
    const rlimit enough{4096, 4096};
    if (geteuid() == 0) setrlimit(RLIMIT_NOFILE, &enough);
    std::vector<int> crowd;
    const std::string path = socket_path();
    for (size_t i = 0; i < kCrowd; ++i) {
      crowd.push_back(knock(path));
    }
    EXPECT_EQ(outcome_of_import(facts->token).message, "");
    pass();
    for (const int fd : crowd) {
      close(fd);
    }
    ipc_collect();
  });
}

// Another thread of the exporter takes each descriptor that becomes free, also the one
// that is kept to refuse somebody with.
TEST_F(Edges, ADoorThatHadToBeShutOpensByItself) {
  static std::atomic<bool> greedy{true};
  exporter([&] {
    const Owned owned = offer(4096);
    std::vector<int> taken;
    rlimit usual{};
    getrlimit(RLIMIT_NOFILE, &usual);
    const rlimit tight{static_cast<rlim_t>(open_descriptors() + 40), usual.rlim_max};
    setrlimit(RLIMIT_NOFILE, &tight);
    std::thread thief([&] {
      taken.reserve(1000);
      while (greedy) {
        const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fd >= 0) taken.push_back(fd);
      }
    });
    usleep(50'000);
    pass();
    greedy = false;
    thief.join();
    for (const int fd : taken) {
      close(fd);
    }
    setrlimit(RLIMIT_NOFILE, &usual);
    pass();
  });

  importer([&] {
    for (int i = 0; i < 60; ++i) {
      outcome_of_import(facts->token, 20);
    }
    pass();
    EXPECT_EQ(outcome_of_import(facts->token).message, "");
  });
}

TEST_F(Edges, TheExporterEndsWhileThreadsExportAndImportersConnect) {
  constexpr int kTrials = 40;
  for (int trial = 0; trial < kTrials; ++trial) {
    Process owner([&] {
      const Owned owned = offer(4096);
      for (int thread = 0; thread < 2; ++thread) {
        std::thread([data = owned.data] {
          std::byte token[SYMM_IPC_TOKEN_MAX_BYTES];
          for (size_t size = 0;;) {
            symm_ipc_export(data, 64, nullptr, token, sizeof token, &size, nullptr);
          }
        }).detach();
      }
      tell();
      wait_for(facts->step, trial + 1);
      usleep(static_cast<useconds_t>(1000 + trial * 37));
      exit(0);
    });

    ASSERT_TRUE(owner.told());
    const std::string path = socket_path();
    facts->step = trial + 1;
    Process crowd([&] {
      for (;;) {
        close(knock(path));
      }
    });

    owner.expect_success("the exporter");
  }
}

// A hold that runs out is noticed even if no thread calls the library.
TEST_F(Edges, AHoldEndsInTime) {
  exporter([&] {
    {
      const Owned owned(1 << 16);
      make_token(owned.data, 64, 200);
    }
    const size_t held = Footprint::now().mappings;
    expect_eventually("it is given back", [&] { return Footprint::now().mappings < held; });
  });
}

// The errors of a kernel that is short of memory, and of a user who has too many descriptors in
// flight.
TEST_F(Edges, SendingFailsForAMoment) {
  exporter([&] {
    const Owned owned = offer(4096);
    pass();
    for (const int error : {ENOBUFS, ETOOMANYREFS}) {
      sendmsg_errno = error;
      pass();
      EXPECT_EQ(sendmsg_errno, 0);
    }
    expect_eventually("all leases are over", [] { return ipc_stats().leases == 0; });
  });

  importer([&] {
    for (const int error : {ENOBUFS, ETOOMANYREFS, ENOMEM}) {
      EXPECT_EQ(outcome_of_import(facts->token).message, "");
      sendmsg_errno = error;
      ipc_collect();
      EXPECT_EQ(sendmsg_errno, 0);
      sendmsg_errno = error;
      EXPECT_EQ(outcome_of_import(facts->token, 5'000).message, "");
      ipc_collect();
    }
    for (int error = 0; error < 2; ++error) {
      pass();
      EXPECT_EQ(outcome_of_import(facts->token, 5'000).message, "");
      ipc_collect();
    }
  });
}

// Whichever allocation fails: a status, and nothing that hangs or crashes afterwards.
TEST_F(Edges, AnyAllocationMayFail) {
  exporter([&] {
    const Owned owned = offer(4096);
    pass();
  });

  importer([&] {
    int failed = 0;
    bool reached = true;
    for (long k = 0; reached; ++k) {
      Process one([&] {
        const Token token = facts->token;
        mallocs_left = k;
        symm_group_config_t config = SYMM_GROUP_CONFIG_INIT;
        config.bootstrap = "thread://short";
        config.size = 1;
        symm_group_t* group = nullptr;
        symm_buffer_t* buffer = nullptr;
        symm_ipc_t* held = nullptr;
        void* pointer = nullptr;
        size_t size = 0;
        std::byte made[SYMM_IPC_TOKEN_MAX_BYTES];
        const auto all = [&] {
          symm_ipc_import_options_t options = SYMM_IPC_IMPORT_OPTIONS_INIT;
          options.timeout_ms = 5'000;
          symm_status_t status = group != nullptr ? SYMM_OK : symm_group_create(&config, &group);
          if (status == SYMM_OK && buffer == nullptr) {
            status = symm_alloc(group, 4096, nullptr, &buffer);
          }
          if (status == SYMM_OK) status = symm_buffer_pointer(buffer, &pointer);
          if (status == SYMM_OK) {
            status = symm_ipc_export(pointer, 64, nullptr, made, sizeof made, &size, nullptr);
          }
          if (status == SYMM_OK) {
            status = symm_ipc_import(token.bytes, token.size, &options, &held, nullptr);
          }
          if (status == SYMM_OK) symm_ipc_release(std::exchange(held, nullptr), nullptr);
          if (status == SYMM_OK) status = symm_ipc_collect(nullptr, nullptr);
          return status;
        };
        const symm_status_t first = all();
        const bool was_reached = mallocs_left < 0;
        mallocs_left = -1;
        const symm_status_t then = all();
        return std::string(was_reached ? "reached " : "not reached ") + std::to_string(first) +
               " " + std::to_string(then);
      });
      const std::string result = one.result();
      EXPECT_TRUE(result.ends_with(" 0")) << k << ": " << result;
      reached = result.rfind("reached", 0) == 0;
      failed += result.rfind("reached -", 0) == 0 ? 1 : 0;
    }
    EXPECT_GT(failed, 20);
  });
}

// ---- a process that runs out of descriptors in the middle of an import, on either
// side, gets an error and keeps nothing

using Descriptors = Sharing;

TEST_F(Descriptors, TheImporterHasNone) {
  exporter([&] {
    const Owned owned(4096);
    const Owned other(4096);
    facts->tokens[0] = make_token(owned.data, 64);
    facts->tokens[1] = make_token(other.data, 64);
    pass();
    expect_eventually(
        "no lease is left of the failed ones", [] { return ipc_stats().leases == 2; });
    pass();
  });

  importer([&] {
    int failures = 0;
    const auto until_it_works = [&](const Token& token) {
      for (int room = 0;; ++room) {
        const Footprint before = Footprint::settled();
        {
          const Limit former(RLIMIT_NOFILE);
          leave_descriptors(room);
          const Outcome outcome = outcome_of_import(token);
          if (outcome.status == SYMM_OK) break;
          EXPECT_NE(outcome.message.find("Too many open files"), std::string::npos)
              << room << ": " << outcome.message;
          EXPECT_EQ(outcome.status, SYMM_ERR_SYSTEM) << room << ": " << outcome.message;
          ++failures;
        }
        if (room > 20) throw std::runtime_error("no number of descriptors is enough");
        const Footprint after = Footprint::settled();
        // The first failures start the service, which stays.
        if (room > 4) {
          EXPECT_LE(after.descriptors, before.descriptors) << room;
        }
      }
    };
    until_it_works(facts->tokens[0]);
    EXPECT_GE(failures, 4) << "socket, pidfd, pages and memory each take a descriptor";
    const int connecting = failures;
    until_it_works(facts->tokens[1]);
    EXPECT_GE(failures, connecting + 1) << "its memory takes one";
    const Import one = import(facts->tokens[0]);
    const Import two = import(facts->tokens[1]);
    pass();
  });
}

TEST_F(Descriptors, TheExporterHasNone) {
  exporter([&] {
    const Owned owned = offer(4096);
    for (int room = 0; room < 3; ++room) {
      const Limit former(RLIMIT_NOFILE);
      Footprint::settled();  // the one before has been let go
      leave_descriptors(room);
      pass();
    }
    EXPECT_GE(ipc_stats().rejected_connections, 3U);
    pass();
  });

  importer([&] {
    for (int room = 0; room < 3; ++room) {
      const Outcome outcome = outcome_of_import(facts->token);
      EXPECT_NE(outcome.status, SYMM_OK) << room;
      EXPECT_NE(outcome.status, SYMM_ERR_TIMEOUT) << room << ": " << outcome.message;
      pass();
    }
    EXPECT_EQ(outcome_of_import(facts->token).message, "");
  });
}
}  // namespace
}  // namespace support
