// Limits on the size of files (RLIMIT_FSIZE). Beyond such a limit the kernel ends a program by
// SIGXFSZ, so the library asks for room before it writes, whichever file that is, and whatever the
// program had done when the limit came.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "symm/symm.h"
#include "tests/support/group.hpp"
#include <symm/symm.hpp>

namespace support::file_sizes {
namespace {
// A program that starts anew has the hard limit of this one, and cannot raise it.
void limit_files(rlim_t bytes) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  bytes = std::min(bytes, limit.rlim_max);
  limit = {bytes, bytes};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

// Whichever file has no room, that is an error and not the signal SIGXFSZ.
TEST(FileSizes, ALimitIsAnErrorThatNamesIt) {
  for (const rlim_t bytes : {0, 3, 20, 50, 1000, 4096}) {
    const Bootstrap meeting;
    Processes ranks(2, [&](int rank) {
      limit_files(bytes);
      Config config = meeting.processes();
      config.create_timeout_ms = 1'000;
      return outcome_of([&] { create(config, rank, 2); }).message;
    });
    const std::string zero = ranks[0].result();
    const std::string one = ranks[1].result();
    EXPECT_NE(zero.find("RLIMIT_FSIZE"), std::string::npos) << bytes << ": " << zero;
    // If rank 0 could not open the meeting, nobody else can know why it does not come.
    const bool is_told = one.find("RLIMIT_FSIZE") != std::string::npos;
    EXPECT_TRUE(is_told || one.find("rank 0 did not come") != std::string::npos) << one;
  }
}

// What a program had done when its limit came, and does then. Returns what the call that has no
// room says, or "" if no call needs any.
struct Limited {
  std::string name;
  bool needs_room;
  std::function<std::string(rlim_t bytes)> use;
};
std::ostream& operator<<(std::ostream& out, const Limited& situation) {
  return out << situation.name;
}

// What the call said, if it failed.
std::string said(const std::function<void()>& call) { return outcome_of(call).message; }

std::string by_threads(rlim_t bytes) {
  limit_files(bytes);
  return said([] { alone(); });
}

std::string by_an_allocation(rlim_t bytes) {
  const Group group = alone();
  limit_files(bytes);
  return said([&] { group.allocate(1 << 20); });
}

std::string by_a_heap(rlim_t bytes) {
  const Group group = alone();
  limit_files(bytes);
  return said([&] { group.heap(1 << 20); });
}

std::string by_a_split(rlim_t bytes) {
  const Group group = alone();
  limit_files(bytes);
  return said([&] { group.split(0); });
}

// What exists is used as ever.
std::string by_use(rlim_t bytes) {
  const Group group = alone();
  const Block block = allocate(group, 4096);
  limit_files(bytes);
  expect_sum(group);
  group.barrier();
  group.finalize();
  return "";
}

std::string by_an_export(rlim_t bytes) {
  const Group group = alone();
  const Block block = allocate(group, 4096);
  limit_files(bytes);
  return said([&] { const symm::Import import(make_token(block.at<std::byte>(0), 4096)); });
}

std::string by_an_adopted_file(rlim_t bytes) {
  const Group group = alone();
  const int file = memfd_create("adopted", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(ftruncate(file, 4096), 0);
  EXPECT_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  limit_files(bytes);
  const std::string text = said([&] { group.adopt_fd(file, 0, 4096); });
  close(file);
  return text;
}

std::string by_an_id(rlim_t bytes) {
  const TemporaryDirectory secret;
  setenv("SYMM_SECRET_FILE", (secret / "secret").c_str(), 1);
  limit_files(bytes);
  return said([] { Group::create(symm::Span<const std::byte>(symm::unique_id()), 0, 1); });
}

std::string by_a_file_of_messages(rlim_t bytes) {
  const TemporaryDirectory there;
  const int file = open((there / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const symm::LogListener listener(file, SYMM_LOG_DEBUG);
  const Group group = alone();
  limit_files(bytes);
  group.abort("a message");
  close(file);
  return "";
}

// Each thread asks for room, and the others may take it before that thread writes.
std::string by_messages_of_many_threads(rlim_t bytes) {
  const TemporaryDirectory there;
  const int file = open((there / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const symm::LogListener listener(file, SYMM_LOG_DEBUG);
  std::vector<Group> groups;
  groups.reserve(64);
  for (int i = 0; i < 64; ++i) {
    groups.push_back(alone("alone" + std::to_string(i)));
  }
  const off_t written = lseek(file, 0, SEEK_END);
  limit_files(static_cast<rlim_t>(written) + bytes);
  as_threads(64, [&](int i) { groups[static_cast<size_t>(i)].abort("a message"); });
  close(file);
  return "";
}

std::string by_the_first_failure(rlim_t bytes) {
  const TemporaryDirectory there;
  setenv("SYMM_FIRST_FAILURE", (there / "failure").c_str(), 1);
  const Group group = alone();
  limit_files(bytes);
  group.abort("a failure of more than three bytes");
  return "";
}

class FilesWithoutRoom : public testing::TestWithParam<Limited> {};

TEST_P(FilesWithoutRoom, AreAnErrorAndNoSignal) {
  for (const rlim_t bytes : {0, 3, 50, 500, 4096, 100'000}) {
    Process program([&] { return GetParam().use(bytes); });
    const int status = program.wait();
    const std::string text = program.said();
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << bytes << " bytes: wait status " << status << ", " << text;
    if (!text.empty()) {
      EXPECT_TRUE(GetParam().needs_room);
      EXPECT_NE(text.find("RLIMIT_FSIZE"), std::string::npos) << text;
    }
    const bool is_refused = bytes == 0 && GetParam().needs_room;
    EXPECT_TRUE(!text.empty() || !is_refused) << "there was room";
  }
}

INSTANTIATE_TEST_SUITE_P(Each, FilesWithoutRoom,
    testing::Values(Limited{"ByThreads", true, by_threads},
        Limited{"ByAnAllocation", true, by_an_allocation}, Limited{"ByAHeap", true, by_a_heap},
        Limited{"ByASplit", true, by_a_split}, Limited{"ByUse", false, by_use},
        Limited{"ByAnExport", true, by_an_export},
        Limited{"ByAnAdoptedFile", false, by_an_adopted_file}, Limited{"ByAnId", true, by_an_id},
        Limited{"ByAFileOfMessages", false, by_a_file_of_messages},
        Limited{"ByMessagesOfManyThreads", false, by_messages_of_many_threads},
        Limited{"ByTheFirstFailure", false, by_the_first_failure}),
    [](const auto& situation) { return situation.param.name; });

// A program that is followed has one file more (SYMM_TRACE), which it opens when it starts. So it
// is this one, which starts anew, and makes groups of threads.
TEST(FileSizes, OfATraceAreNoSignal) {
  for (const rlim_t bytes : {0, 3, 50, 500, 4096, 100'000}) {
    const TemporaryDirectory there;
    Process program([&] {
      setenv("SYMM_TRACE", there.path().c_str(), 1);
      limit_files(bytes);
      run_again({"--gtest_filter=Each/FilesWithoutRoom.*/ByThreads"});
    });
    program.expect_success("a program that is followed, with " + std::to_string(bytes) + " bytes");
  }
}

}  // namespace
}  // namespace support::file_sizes
