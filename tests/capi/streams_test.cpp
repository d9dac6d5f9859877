// Programs without standard streams, in every situation in which the library opens descriptors. The
// numbers from 0 to 2 stay free for what the program opens and takes for its streams.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "symm/symm.h"
#include "tests/support/group.hpp"
#include <symm/symm.hpp>

namespace support::streams {
namespace {
constexpr int kStreams = 3;

// The id that rank 0 makes for both ranks.
struct Meeting {
  std::atomic<bool> has_id{false};
  std::byte id[SYMM_UNIQUE_ID_MAX_BYTES];
};

struct There {
  const Bootstrap& directory;
  Meeting& meeting;
  // Why no engine connects the ranks of this process, if the situation needs one.
  std::string& no_engine;

  Group join(int rank, const std::string& name = "") const {
    Config config = directory.processes();
    config.name = name;
    return create(config, rank, 2);
  }
};

struct Situation {
  std::string name;
  std::function<void(int rank, const There& there)> use;
};
std::ostream& operator<<(std::ostream& out, const Situation& situation) {
  return out << situation.name;
}

void close_streams() {
  for (int stream = 0; stream < kStreams; ++stream) {
    close(stream);
  }
}

// The streams that are open. A thread of the library may hold the number of a closed one for a
// moment, by a file that can be neither read nor written.
std::string open_streams() {
  std::string open;
  for (int stream = 0; stream < kStreams; ++stream) {
    const int flags = fcntl(stream, F_GETFL);
    if (flags >= 0 && (flags & O_PATH) == 0) open += std::to_string(stream);
  }
  return open;
}

// A closed stream takes no text: nothing of the library, nor of a library that it uses, is there.
void expect_closed() {
  for (int stream = 0; stream < kStreams; ++stream) {
    errno = 0;
    EXPECT_EQ(write(stream, "text", 4), -1) << "stream " << stream << " takes text";
    EXPECT_EQ(errno, EBADF);
  }
}

// The library has opened what it ever opens for a group, and no stream is among that.
void use(const Group& group, const std::string& streams = "") {
  const Block block = allocate(group, 4096);
  expect_sum(group);
  group.barrier();
  EXPECT_EQ(open_streams(), streams);
}

// The ranks lie on machines of their own, which this engine connects.
void use_machines(const char* engine, int rank, const There& there) {
  setenv("SYMM_ENGINE", engine, 1);
  setenv("SYMM_MACHINE", rank == 0 ? "a" : "b", 1);
  const Outcome outcome = outcome_of([&] {
    const Group group = there.join(rank);
    const Block block = allocate(group, 4096);
    expect_sum(group);
    expect_closed();
    group.barrier();
    group.finalize();
  });
  if (outcome.status == SYMM_OK) return;
  EXPECT_EQ(outcome.status, SYMM_ERR_UNAVAILABLE) << outcome.message;
  there.no_engine = outcome.message;
}

void in_one_rank(int rank, const There& there) {
  if (rank == 1) close_streams();
  use(there.join(rank), rank == 1 ? "" : "012");
}

void closed_after_the_creation(int rank, const There& there) {
  const Group group = there.join(rank);
  close_streams();
  group.failure_fd();
  use(group);
  use(group.split(0));
}

void closed_between_two_groups(int rank, const There& there) {
  const Group first = there.join(rank, "first");
  close_streams();
  use(there.join(rank, "second"));
  use(first);
}

void opened_again(int rank, const There& there) {
  close_streams();
  const Group group = there.join(rank);
  for (int stream = 0; stream < kStreams; ++stream) {
    EXPECT_EQ(open("/dev/null", O_RDWR | O_CLOEXEC), stream);
  }
  use(group, "012");
  close_streams();
  use(group);
}

void over_ucx(int rank, const There& there) {
  close_streams();
  use_machines("ucx", rank, there);
}

void over_own_connections(int rank, const There& there) {
  close_streams();
  use_machines("secure", rank, there);
}

void met_by_an_id(int rank, const There& there) {
  close_streams();
  if (rank == 0) {
    const symm::UniqueId id = symm::unique_id();
    std::copy(id.begin(), id.end(), there.meeting.id);
    there.meeting.has_id = true;
  }
  ASSERT_TRUE(eventually([&] { return there.meeting.has_id.load(); }));
  use(Group::create(symm::Span<const std::byte>(there.meeting.id), rank, 2));
}

void survivors(int rank, const There& there) {
  close_streams();
  const Group group = there.join(rank);
  group.barrier();
  if (rank == 1) return;
  expect_failure(SYMM_ERR_PEER_FAILED, {"rank 1"}, [&] { group.barrier(); });
  use(group.shrink());
}

void threads_at_once(int rank, const There&) {
  if (rank == 1) return;
  close_streams();
  as_threads(4, [](int, const Group& group) { use(group); });
}

void a_forked_child(int rank, const There&) {
  if (rank == 1) return;
  const Group parents = create({"thread://streams", ""}, 0, 1);
  Process child([] {
    close_streams();
    use(create({"thread://child", ""}, 0, 1));
    return "";
  });
  EXPECT_EQ(child.result(), "");
  close_streams();
  use(parents);
}

// The copy of the listener outlives the stream, which the program closes.
void logged(int rank, const There& there) {
  const symm::LogListener listener(STDERR_FILENO, SYMM_LOG_ERROR);
  close_streams();
  use(there.join(rank));
  const symm::LogListener again(fcntl(100, F_DUPFD_CLOEXEC, 101), SYMM_LOG_DEBUG);
  use(there.join(rank, "logged"));
}

// The variable is read by each call of the library that creates a group.
void followed(int rank, const There& there) {
  close_streams();
  setenv("SYMM_FIRST_FAILURE", (there.directory / "failure").c_str(), 1);
  const Group group = there.join(rank);
  use(group);
  if (rank == 0) group.abort("of this rank");
  EXPECT_TRUE(eventually([&] { return group.status().status == SYMM_ERR_ABORTED; }));
  EXPECT_EQ(open_streams(), "");
  unlink((there.directory / "failure").c_str());
}

// Text that a thread of the program writes to the closed stream while another one allocates and
// releases memory: it would land in the block, or in a connection, if a descriptor of the library
// had the stream's number for a moment.
TEST(ClosedStream, TakesNoTextWhileTheLibraryMakesDescriptors) {
  Process program([]() -> std::string {
    close(STDOUT_FILENO);
    std::atomic<bool> stop{false};
    std::atomic<int> taken{0};
    std::thread writer([&] {
      while (!stop)
        taken += write(STDOUT_FILENO, "text", 4) != -1 ? 1 : 0;
    });

    int written_to = 0;
    {
      const Group group = alone();
      for (int i = 0; i < 2000; ++i) {
        const Block block = allocate(group, 4096);
        const auto* const bytes = block.at<char>(0);
        written_to += std::all_of(bytes, bytes + 4096, [](char byte) { return byte == 0; }) ? 0 : 1;
      }
      for (int i = 0; i < 20; ++i) {
        const Group other = alone("other");
        other.failure_fd();
        expect_sum(other);
      }
    }
    stop = true;
    writer.join();
    if (taken == 0 && written_to == 0) return "";
    return std::to_string(taken) + " texts were taken, " + std::to_string(written_to) +
           " blocks are not zero";
  });
  EXPECT_EQ(program.result(), "");
}

class WithoutStreams : public testing::TestWithParam<Situation> {};

// A machine without UCX, and a build without libsodium, lack the engine of a situation.
bool lacks_engine(const std::string& said) {
  return said.find("no engine") != std::string::npos ||
         said.find("built without libsodium") != std::string::npos;
}

TEST_P(WithoutStreams, TheirNumbersStayFree) {
  const Bootstrap directory;
  const TemporaryDirectory secret;
  setenv("SYMM_SECRET_FILE", (secret / "secret").c_str(), 1);
  const Shared<Meeting> meeting;
  Processes ranks(2, [&](int rank) {
    dup3(STDERR_FILENO, 100, O_CLOEXEC);
    std::string no_engine;
    GetParam().use(rank, {directory, *meeting, no_engine});
    return no_engine;
  });

  std::string why;
  for (Process& rank : ranks) {
    const std::string said = rank.result();
    if (lacks_engine(said)) {
      why = said;
    } else {
      EXPECT_EQ(said, "");
    }
  }
  unsetenv("SYMM_SECRET_FILE");
  if (!why.empty()) GTEST_SKIP() << why;
}

INSTANTIATE_TEST_SUITE_P(Each, WithoutStreams,
    testing::Values(Situation{"InOneRank", in_one_rank},
        Situation{"ClosedAfterTheCreation", closed_after_the_creation},
        Situation{"ClosedBetweenTwoGroups", closed_between_two_groups},
        Situation{"OpenedAgain", opened_again}, Situation{"OverUcx", over_ucx},
        Situation{"OverOwnConnections", over_own_connections}, Situation{"MetByAnId", met_by_an_id},
        Situation{"Survivors", survivors}, Situation{"ThreadsAtOnce", threads_at_once},
        Situation{"AForkedChild", a_forked_child}, Situation{"Logged", logged},
        Situation{"Followed", followed}),
    [](const auto& situation) { return situation.param.name; });
}  // namespace
}  // namespace support::streams
