// Ranks that are processes, and then such that are threads of one: mailboxes, no
// sockets. Processes are forked while this one has one thread; a mesh is only made in
// children, or in the parent afterwards.
#include "core/mesh/mesh.hpp"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/process.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/store.hpp"
#include "core/socket/monitor.hpp"
#include "tests/mesh/mesh_support.hpp"

namespace {
using namespace symm;
using namespace support;

using MeshProcess = MeshTest;

class MeshProcesses : public MeshTest, public testing::WithParamInterface<bool> {};

INSTANTIATE_TEST_SUITE_P(SocketsInStoresDirectory, MeshProcesses, testing::Bool());

TEST_P(MeshProcesses, AllTalkToAllAndLeaveNoFile) {
  as_processes(5, [&](int rank) {
    setenv("XDG_RUNTIME_DIR", directory.path().c_str(), 1);
    const auto files = open_store(directory.path(), rank, 5);
    WatchedStore store(*files, [](const std::string&, const Bytes&) {});
    store.has_directory = GetParam();
    const auto mesh = Mesh::connect(store, rank, 5, "test", soon());
    greet(*mesh, 1);

    for (int peer = 0; peer < 5; ++peer) {
      EXPECT_TRUE(peer == rank || (!mesh->peer(peer).same_process && mesh->peer(peer).watched))
          << peer;
    }

    greet(*mesh, 2);
    EXPECT_EQ(mesh->rejected_connections(), 0U);
  });
  if (!GetParam()) {
    EXPECT_TRUE(std::filesystem::remove(directory / "symm")) << "where sockets were";
  }
  expect_empty(directory.path());
}

TEST_F(MeshProcess, LongDirectoryNames) {
  const std::string path = directory / std::string(120, 'd');
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  as_processes(2, [&](int rank) { greet(*connect(path, rank, 2), 1); });
}

TEST_F(MeshProcess, ThreadsAndProcessesMix) {
  as_processes(2, [&](int process) {
    as_threads(3, [&](int thread) {
      const int rank = 2 * thread + process;
      const auto mesh = connect(directory.path(), rank, 6);
      greet(*mesh, 1);
      for (int peer = 0; peer < 6; ++peer) {
        EXPECT_EQ(mesh->peer(peer).same_process, peer % 2 == process);
      }
      greet(*mesh, 2);
    });
  });
}

TEST_F(MeshProcess, DescriptorsLostForWantOfRoomAreAnErrorOfTheReceiver) {
  SYMM_NOT_UNDER_ASAN("the sanitizer itself fails without descriptors");
  as_processes(2, [&](int rank) {
    const auto mesh = connect(directory.path(), rank, 2);
    const auto revocation = attach_all(*mesh, kTopic.group);
    if (rank == 1) support::leave_descriptors(0);
    greet(*mesh, 1);

    if (rank == 0) {
      const int fds[] = {0, 0};
      say(*mesh, 1, kTopic, "fds", fds);
      EXPECT_EQ(hear(*mesh, 1, kTopic, 2), "ok");
      return;
    }

    expect_failure(Status::system, {}, [&] { mesh->receive(0, kTopic, 3, 2, nullptr, soon()); });
    say(*mesh, 0, kTopic, "ok");  // the connection is as good as before
    EXPECT_FALSE(revocation->revoked());
  });
}

TEST_F(MeshProcess, AForkedChildDoesNotHideADeath) {
  Processes ranks(2, [&](int rank) {
    auto mesh = connect(directory.path(), rank, 2);
    const auto revocation = attach_all(*mesh, kTopic.group);
    greet(*mesh, 1);

    if (rank == 0) {
      tell();
      return await_failure(*revocation).message;
    }

    const size_t before = open_descriptors();
    const pid_t child = fork();
    if (child == 0) {
      // Closed at the fork: socket, pidfd, epoll and its question, life and its bell. What the
      // child does with the mesh it inherited must not reach anybody.
      const bool closed = open_descriptors() + 6 == before;
      const Failure failure = failure_of([&] { say(*mesh, 0, kTopic, "no"); });
      mesh->detach(kTopic.group);
      mesh.reset();
      if (closed && failure.status == Status::invalid_handle) {
        std::ofstream(directory / "well").put('y');
      }
      tell();
      sleep(2);  // outlives its parent
      _exit(0);
    }

    pause();
    return std::string();
  });

  for (auto& rank : ranks) {
    ASSERT_TRUE(rank.told());
  }

  const int pid = ranks[1].pid();
  ranks[1].kill(SIGKILL);
  const std::string message = ranks[0].result();
  EXPECT_NE(message.find(format("rank 1 (pid %d) died", pid)), std::string::npos) << message;
  EXPECT_EQ(access((directory / "well").c_str(), F_OK), 0);
}

// The monitor's thread is kept from reading, as a stop of the process does that ends when a
// deadline has passed: the waiting thread may run first then.
TEST_F(MeshProcess, AMessageThatHadComeIsDeliveredAfterTheDeadline) {
  struct Keeper final : Watched {
    void ready(int fd) noexcept override {
      uint64_t count = 0;
      ASSERT_EQ(read(fd, &count, sizeof count), static_cast<ssize_t>(sizeof count));
      is_kept = true;
      (void)eventually([&] { return is_free.load(); });
    }
    std::atomic<bool> is_kept{false};
    std::atomic<bool> is_free{false};
  };

  const Shared<std::atomic<bool>> may_send;
  const Shared<std::atomic<bool>> has_sent;
  as_processes(2, [&](int rank) {
    const auto mesh = connect(directory.path(), rank, 2);
    if (rank == 1) {
      ASSERT_TRUE(eventually([&] { return may_send->load(); }));
      say(*mesh, 0, kTopic, "late");
      *has_sent = true;
      greet(*mesh, 1);
      return;
    }

    const auto keeper = std::make_shared<Keeper>();
    const Fd bell(eventfd(1, EFD_CLOEXEC));
    const uint64_t number = Monitor::current().watch(bell.get(), keeper);
    ASSERT_TRUE(eventually([&] { return keeper->is_kept.load(); }));
    *may_send = true;
    ASSERT_TRUE(eventually([&] { return has_sent->load(); }));

    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      keeper->is_free = true;
    });
    const Message message =
        mesh->receive(1, kTopic, 4, 0, nullptr, Deadline::after_ms(Deadline::kNow));
    EXPECT_EQ(message.body.size(), 4U);
    later.join();
    Monitor::current().forget(number);
    greet(*mesh, 1);
  });
}

// There it began at another time than others see.
TEST_F(MeshProcess, ASlowRankOfAnotherTimeNamespaceIsNotTakenForDead) {
  const auto body_of = [&](int rank) {
    const auto files = open_store(directory.path(), rank, 2);
    WatchedStore slow(*files, [rank](const std::string& key, const Bytes&) {
      usleep(rank == 1 && key == "mesh/address/0" ? 500'000 : 0);
    });
    greet(*Mesh::connect(slow, rank, 2, "test", soon()), 1);
    return std::string("ok");
  };

  Processes ranks(2, [&](int rank) {
    if (rank == 0) return body_of(0);
    constexpr int clone_newtime = 0x80;  // Linux 5.6; for children
    std::ofstream offsets(unshare(clone_newtime) == 0 ? "/proc/self/timens_offsets" : "");
    const bool left = (offsets << "boottime 9 0").flush().good();
    return left ? Process([&] { return body_of(1); }).result()
                : format("no namespaces: %s", std::strerror(errno));
  });

  const std::string result = ranks[1].result();
  if (result.starts_with("no ")) GTEST_SKIP() << result;
  EXPECT_EQ(result, "ok");
  EXPECT_EQ(ranks[0].result(), "ok");
}

TEST_F(MeshProcess, AForkedChildMayMakeMeshesOfItsOwn) {
  SYMM_NOT_UNDER_TSAN("it cannot start threads in the child of a process with threads");
  TemporaryDirectory second;
  as_processes(2, [&](int rank) {
    const auto mesh = connect(directory.path(), rank, 2);
    greet(*mesh, 1);
    Process child([&] {
      greet(*connect(second.path(), rank, 2), 1);
      return "";
    });
    child.result();
    greet(*mesh, 2);
  });
}

// ---- threads

using MeshThreads = MeshTest;

TEST_F(MeshThreads, AllTalkToAllWithoutDescriptors) {
  for (const int size : {2, 3, 8, 64}) {
    const size_t before = open_descriptors();
    std::vector<std::shared_ptr<Mesh>> meshes(static_cast<size_t>(size));
    as_threads(size, [&](int rank) {
      meshes[static_cast<size_t>(rank)] = connect(directory.path(), rank, size);
      greet(*meshes[static_cast<size_t>(rank)], 1);
    });
    EXPECT_EQ(open_descriptors(), before);
    for (const auto& mesh : meshes) {
      EXPECT_EQ(mesh->nonce(), meshes[0]->nonce());
      for (int peer = 0; peer < size; ++peer) {
        EXPECT_TRUE(mesh->peer(peer).same_process);
      }
    }
  }
}

// The first write or reading of a key fails, and not by an Error.
void expect_internal_on_all_ranks(const std::string& key) {
  TemporaryDirectory directory;
  as_threads(2, [&](int rank) {
    const auto start = std::chrono::steady_clock::now();
    const Failure failure = expect_failure(Status::internal, {"odd"}, [&] {
      const auto files = open_store(directory.path(), rank, 2);
      WatchedStore store(
          *files, [&, odd = rank == 0](const std::string& used, const Bytes&) mutable {
            if (used == key && !std::exchange(odd, true)) throw std::runtime_error("odd");
          });
      Mesh::connect(store, rank, 2, "test", soon());
    });
    EXPECT_EQ(failure.rank, 1);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  });
}

TEST_F(MeshThreads, AnUnexpectedExceptionIsInternalOnAllRanks) {
  expect_internal_on_all_ranks("mesh/identity/1");
}

// The other is joined when it has voted already.
TEST_F(MeshThreads, AThreadThatFailedAfterItsIntroductionIsHeard) {
  expect_internal_on_all_ranks("mesh/identity/0");
}

TEST_F(MeshThreads, EventsBeforeAttachAreReplayed) {
  as_threads(3, [&](int rank) {
    const auto mesh = connect(directory.path(), rank, 3);
    if (rank == 0) {
      attach_all(*mesh, 5);
      attach_all(*mesh, 6);
      mesh->broadcast_failure(5, {Status::aborted, 0, 1, "early"});
      mesh->detach(6);
    }

    greet(*mesh, 1);
    if (rank != 0) {
      EXPECT_EQ(await_failure(*attach_all(*mesh, 5), 0).message, "early");
      EXPECT_TRUE(attach_all(*mesh, 6)->departed(0));
    }

    greet(*mesh, 2);
  });
}

TEST_F(MeshThreads, WrongSizesAreAFault) {
  as_threads(2, [&](int rank) {
    const auto mesh = connect(directory.path(), rank, 2);
    const auto revocation = attach_all(*mesh, kTopic.group);
    greet(*mesh, 1);
    say(*mesh, 1 - rank, kTopic, "four");
    expect_failure(
        Status::peer_failed, {"broke the protocol"}, [&] { hear(*mesh, 1 - rank, kTopic, 5); });
    EXPECT_TRUE(revocation->revoked());
  });
}

TEST_F(MeshThreads, AFloodOfUnreadMessagesFailsItsSenderForAll) {
  std::shared_ptr<Mesh> meshes[3];
  std::shared_ptr<Revocation> revocations[3];
  as_threads(3, [&](int rank) {
    meshes[rank] = connect(directory.path(), rank, 3);
    revocations[rank] = attach_all(*meshes[rank], kTopic.group);
  });

  for (int i = 0; i < 5'000; ++i) {
    say(*meshes[0], 1, kTopic, "flood");
  }

  for (const auto& revocation : revocations) {
    EXPECT_NE(revocation->failure().message.find("more than anybody reads"), std::string::npos);
  }
}
}  // namespace
