#include "core/backend/segment.hpp"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "core/backend/hardware.hpp"
#include "core/backend/numa.hpp"
#include "core/backend/topology.hpp"
#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "tests/support/core.hpp"

static size_t interrupted_above = SIZE_MAX;
static int interruptions = 0;

// A process with a timer, on a kernel that undoes what an interrupted call has allocated: a call
// for many bytes never ends.
extern "C" int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  if (static_cast<size_t>(bytes) > interrupted_above && ++interruptions < 100) {
    errno = EINTR;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, bytes));
}

namespace symm::host {
namespace {
Fd duplicate(const Segment& segment) { return Fd(fcntl(segment.fd(), F_DUPFD_CLOEXEC, 0)); }

Status status_of_import(Fd fd, size_t bytes) {
  return support::failure_of([&] { Segment::import(std::move(fd), bytes); }).status;
}

TEST(Segment, IsZeroedAndAligned) {
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{5000}, size_t{5} << 20}) {
    const auto segment = Segment::create(bytes, "symm-test");
    EXPECT_EQ(segment->size(), bytes);
    EXPECT_TRUE(std::all_of(
        segment->data(), segment->data() + bytes, [](std::byte b) { return b == std::byte{0}; }));
    const size_t boundary = bytes >= (size_t{2} << 20) ? size_t{2} << 20 : 4096;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(segment->data()) % boundary, 0U);
  }
}

TEST(Segment, IsAllocatedUnderATimerThatLongCallsDoNotOutrun) {
  interrupted_above = 1 << 20;
  EXPECT_EQ(Segment::create(size_t{5} << 20, "symm-test")->size(), size_t{5} << 20);
  interrupted_above = SIZE_MAX;
  EXPECT_LT(interruptions, 10);
}

TEST(Segment, IsMappedOnceInAProcessAndForgottenWithItsLastReference) {
  auto segment = Segment::create(100, "symm-test");
  const Fd copy = duplicate(*segment);
  segment->data()[5] = std::byte{9};
  EXPECT_EQ(Segment::import(duplicate(*segment), 100), segment);
  segment.reset();

  // The descriptor kept the memory alive, which is mapped once more.
  const auto other = Segment::import(Fd(dup(copy.get())), 100);
  EXPECT_EQ(other->data()[5], std::byte{9});
  EXPECT_EQ(other->fd(), -1) << "a peer's segment needs no descriptor once it is mapped";

  // Unless it is to be kept: the first that comes, while others look whether there is one.
  support::as_threads(4, [&](int) {
    const int before = other->fd();
    EXPECT_EQ(Segment::import(Fd(dup(copy.get())), {100, 4096}, Descriptor::keep), other);
    EXPECT_TRUE(before == -1 || before == other->fd());
  });
}

TEST(Segment, RefusesWrongSizes) {
  const auto segment = Segment::create(100, "symm-test");
  EXPECT_EQ(status_of_import(duplicate(*segment), 4096), Status::ok) << "the same page";
  EXPECT_EQ(status_of_import(duplicate(*segment), 4097), Status::peer_failed);
  const auto larger = Segment::create(8192, "symm-test");
  EXPECT_EQ(status_of_import(duplicate(*larger), 4096), Status::peer_failed);
}

TEST(Segment, RefusesWhatCouldStillShrinkAndOtherKindsOfDescriptors) {
  Fd unsealed(memfd_create("evil", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096), 0);
  EXPECT_EQ(status_of_import(std::move(unsealed), 4096), Status::peer_failed);
  EXPECT_EQ(status_of_import(Fd(open("/dev/null", O_RDWR | O_CLOEXEC)), 4096), Status::peer_failed);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Fd writer(ends[1]);
  EXPECT_EQ(status_of_import(Fd(ends[0]), 4096), Status::peer_failed);
  EXPECT_EQ(status_of_import(Fd(-1), 4096), Status::system);
}

TEST(Segment, CannotBeResizedByAnybody) {
  const auto segment = Segment::create(4096, "symm-test");
  EXPECT_NE(ftruncate(segment->fd(), 0), 0);
  EXPECT_NE(ftruncate(segment->fd(), 8192), 0);
  EXPECT_NE(fcntl(segment->fd(), F_ADD_SEALS, F_SEAL_WRITE), 0)
      << "nor can seals be added that would stop us";
}

TEST(Segment, TooMuchIsAnErrorThatNamesTheLimit) {
  // A terabyte more than there is: without the check
  // the kernel would fill the machine's memory first.
  for (const size_t bytes :
      {available_memory_bytes() + (size_t{1} << 40), size_t{1} << 60, SIZE_MAX}) {
    support::expect_failure(
        Status::out_of_memory, {}, [&] { Segment::create(bytes, "symm-test"); });
  }
}

// ---- on a NUMA node that is named. Where the machine or a sandbox does not allow to
// bind memory, that must be what is said

int node_of(const std::byte* page) {
  int node = -1;
  const unsigned long flags = MPOL_F_NODE | MPOL_F_ADDR;
  return syscall(SYS_get_mempolicy, &node, nullptr, 0UL, page, flags) == 0 ? node : -1;
}

Failure failure_on(int node, size_t bytes) {
  return support::failure_of([&] { Segment::create(bytes, "symm-test", {true, node}); });
}

TEST(Numa, AllPagesLieOnTheNode) {
  constexpr size_t kBytes = size_t{3} << 20;
  if (const Failure failure = failure_on(0, kBytes); failure.status == Status::unavailable) {
    EXPECT_NE(failure.message.find("mbind"), std::string::npos) << failure.message;
    GTEST_SKIP() << failure.message;
  }
  const auto segment = Segment::create(kBytes, "symm-test", {true, 0});
  for (size_t at = 0; at < kBytes; at += 4096) {
    ASSERT_EQ(node_of(segment->data() + at), 0) << at;
    ASSERT_EQ(segment->data()[at], std::byte{0});
  }
}

TEST(Numa, NoSuchNode) {
  for (const int node : {1000, 1023, 1024, 65534}) {
    const Failure failure = failure_on(node, 4096);
    if (failure.status == Status::unavailable) GTEST_SKIP() << failure.message;
    EXPECT_EQ(failure.status, Status::invalid_argument) << node << ": " << failure.message;
    EXPECT_EQ(failure.message.rfind("options.numa_node: ", 0), 0U) << failure.message;
    EXPECT_NE(failure.message.find(std::to_string(node)), std::string::npos) << failure.message;
  }
}

TEST(Numa, ListsOfTheKernelAreRead) {
  for (const int in : {0, 1, 3, 8, 1023}) {
    EXPECT_TRUE(host::list_has("0-3,8,1000-1023", in)) << in;
  }
  for (const int out : {4, 7, 9, 999, 1024}) {
    EXPECT_FALSE(host::list_has("0-3,8,1000-1023", out)) << out;
  }
  EXPECT_FALSE(host::list_has("", 0));
}

TEST(Numa, AThreadOnOneProcessorIsAtTheNodeOfThatProcessor) {
  std::thread([] {
    cpu_set_t all;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    size_t first = 0;
    while (CPU_ISSET(first, &all) == 0) {
      ++first;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);

    const int node = host::node_of_processors();
    const std::string place = "/sys/devices/system/node/node" + std::to_string(std::max(node, 0)) +
                              "/cpu" + std::to_string(first);
    EXPECT_EQ(node >= 0, std::filesystem::exists("/sys/devices/system/node/online"));
    EXPECT_EQ(node >= 0, std::filesystem::exists(place)) << place;
  }).join();
}

// Bound memory cannot come from elsewhere, so the kernel would kill somebody.
TEST(Numa, MoreThanTheNodeHasIsRefusedUpFront) {
  const Failure failure = failure_on(0, size_t{1} << 50);
  EXPECT_EQ(failure.status, Status::out_of_memory) << failure.message;
}

// ---- what the machine is

TEST(Hardware, SomeOfItsMemoryIsAvailable) {
  EXPECT_GT(available_memory_bytes(), size_t{1} << 20);
  EXPECT_LE(available_memory_bytes(), memory_bytes());
}

TEST(Hardware, LimitsOfControlGroupsAreSeen) {
  const support::TemporaryDirectory top;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(top / name).parent_path());
    std::ofstream(top / name) << text;
  };

  const auto available = [&](const std::string& list) {
    write("list", list);
    return available_in_control_groups(top.path(), top / "list");
  };

  write("memory/job/memory.limit_in_bytes", "1000");
  write("memory/job/memory.usage_in_bytes", "300");
  write("job/memory.max", "500");
  write("job/memory.current", "100");
  write("job/part/memory.max", "max");
  EXPECT_EQ(available("3:cpu:/job\n"), SIZE_MAX);
  EXPECT_EQ(available("3:cpu:/job\n4:cpuset,memory:/job/inner\n0::/\n"), 700U);
  EXPECT_EQ(available("0::/job/part\n"), 400U);
}
}  // namespace
}  // namespace symm::host
