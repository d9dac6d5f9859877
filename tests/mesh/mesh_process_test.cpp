// Ranks that are processes. They are forked while this process has one thread; a mesh is only made in children, or in the parent
// afterwards.
#include "core/base/process.hpp"
#include "core/socket/directory.hpp"
#include "tests/mesh/mesh_support.hpp"
#include "tests/support/sanitizers.hpp"

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
    for (int peer = 0; peer < 5; ++peer)
      EXPECT_TRUE(peer == rank || (!mesh->peer(peer).same_process && mesh->peer(peer).watched)) << peer;
    greet(*mesh, 2);
    EXPECT_EQ(mesh->rejected_connections(), 0U);
  });
  if (!GetParam()) { EXPECT_TRUE(std::filesystem::remove(directory / "symm")) << "where sockets were"; }
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
      for (int peer = 0; peer < 6; ++peer) EXPECT_EQ(mesh->peer(peer).same_process, peer % 2 == process);
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
      // Closed at the fork: socket, pidfd, epoll, life and its bell. What the child does with the mesh it inherited must not
      // reach anybody.
      const bool closed = open_descriptors() + 5 == before;
      const Failure failure = failure_of([&] { say(*mesh, 0, kTopic, "no"); });
      mesh->detach(kTopic.group);
      mesh.reset();
      if (closed && failure.status == Status::invalid_handle) std::ofstream(directory / "well").put('y');
      tell();
      sleep(2);  // outlives its parent
      _exit(0);
    }
    pause();
    return std::string();
  });
  for (auto& rank : ranks) ASSERT_TRUE(rank.told());
  const int pid = ranks[1].pid();
  ranks[1].kill(SIGKILL);
  const std::string message = ranks[0].result();
  EXPECT_NE(message.find(format("rank 1 (pid %d) died", pid)), std::string::npos) << message;
  EXPECT_EQ(access((directory / "well").c_str(), F_OK), 0);
}

// There it began at another time than others see.
TEST_F(MeshProcess, ASlowRankOfAnotherTimeNamespaceIsNotTakenForDead) {
  const auto body_of = [&](int rank) {
    const auto files = open_store(directory.path(), rank, 2);
    WatchedStore slow(
        *files, [rank](const std::string& key, const Bytes&) { usleep(rank == 1 && key == "mesh/address/0" ? 500'000 : 0); });
    greet(*Mesh::connect(slow, rank, 2, "test", soon()), 1);
    return std::string("ok");
  };
  Processes ranks(2, [&](int rank) {
    if (rank == 0) return body_of(0);
    constexpr int clone_newtime = 0x80;  // Linux 5.6; for children
    std::ofstream offsets(unshare(clone_newtime) == 0 ? "/proc/self/timens_offsets" : "");
    const bool left = (offsets << "boottime 9 0").flush().good();
    return left ? Process([&] { return body_of(1); }).result() : format("no namespaces: %s", std::strerror(errno));
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
    Process([&] { return greet(*connect(second.path(), rank, 2), 1), ""; }).result();
    greet(*mesh, 2);
  });
}
}  // namespace
