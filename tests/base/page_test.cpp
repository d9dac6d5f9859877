#include "core/base/page.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

#include "core/base/call_tag.hpp"
#include "core/base/fd.hpp"
#include "kernels/types.hpp"
#include "symm/page.h"
#include "tests/support/footprint.hpp"

namespace symm {
namespace {
constexpr uint64_t kGroup = 0x7061'6765'7465'7374;
constexpr int64_t kPids[] = {11, 12};

// The path by which another process finds the page.
std::string path_of_page() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;
    if (std::filesystem::read_symlink(entry.path(), closed) != SYMM_PAGE_LINK) continue;
    const Fd fd(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    symm_page_t page{};
    if (fd && read_whole(fd.get(), &page, sizeof page) > 0 && page.group == kGroup) {
      return entry.path();
    }
  }
  return "";
}

TEST(Page, ItsUserReadsItAndNobodyElseWritesIt) {
  auto page = std::make_unique<Page>(1, kGroup, 1, "a name", kPids);
  const std::string path = path_of_page();
  Fd fd(open(path.c_str(), (geteuid() == 0 ? O_RDWR : O_RDONLY) | O_CLOEXEC));

  struct stat status{};
  ASSERT_EQ(fstat(fd.get(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0400U);

  const auto bytes = static_cast<size_t>(status.st_size);
  EXPECT_EQ(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0), MAP_FAILED);
  EXPECT_LT(pwrite(fd.get(), "x", 1, 0), 0);
  EXPECT_NE(ftruncate(fd.get(), 0), 0);

  symm_page_t seen{};
  ASSERT_EQ(read_whole(fd.get(), &seen, sizeof seen), static_cast<ssize_t>(sizeof seen));
  EXPECT_EQ(seen.magic, SYMM_PAGE_MAGIC);
  EXPECT_EQ(seen.rank, 1);
  EXPECT_STREQ(seen.name, "a name");

  fd.reset();
  page.reset();
  EXPECT_EQ(path_of_page(), "") << "it goes with its owner";
}

// If a reader of a slot sees equal times before and after, what it read was written for that
// sleep.
TEST(Page, ASleepIsSeenWholeAndThoseWithoutRoomAreNot) {
  const Page page(1, kGroup, 0, "", kPids);
  const auto load = [](auto& word) {
    return std::atomic_ref(word).load(std::memory_order_acquire);
  };

  std::atomic<int> seen{0};
  std::vector<std::thread> sleepers;
  for (int i = 1; i <= SYMM_PAGE_WAITS + 2; ++i) {
    sleepers.emplace_back([&, i] {
      const std::string what(40, static_cast<char>('A' + i));
      while (seen < 1'000) {
        const Page::Sleep asleep(&page, i, what, now_ns());
      }
    });
  }

  symm_page_wait_t& wait = page->sleeping[0];
  auto* const words = reinterpret_cast<uint64_t*>(wait.what);
  while (seen < 1'000) {
    const uint64_t since = load(wait.since_ns);
    const uint64_t first = load(words[0]);
    const uint64_t last = load(words[2]);
    const int64_t peer = load(wait.peer);
    if (since == 0 || load(wait.since_ns) != since) continue;
    ++seen;
    const auto letters = 0x0101'0101'0101'0101 * static_cast<uint64_t>('A' + peer);
    EXPECT_EQ(first, letters);
    EXPECT_EQ(last, letters & UINT64_MAX >> 8) << "cut";
  }

  for (std::thread& sleeper : sleepers) {
    sleeper.join();
  }

  EXPECT_TRUE(std::ranges::all_of(
      page->sleeping, [](const symm_page_wait_t& one) { return one.since_ns == 0; }));
}

TEST(Trace, ACallIsNotedWhenItBeginsAndWhenItEnds) {
  const support::TemporaryDirectory folder;
  setenv("SYMM_TRACE", folder.path().c_str(), 1);
  Trace::wanted = true;
  const Page page(1, kGroup, 0, "a name", kPids);
  const Trace unfinished(nullptr, "unfinished");

  try {
    const CallTag tagged("gradients");
    Trace call;
    call.begin(&page, "call", -1, 0, static_cast<int>(DType::f32));
    Trace::note(5, 3);
    const Page::Sleep asleep(&page, 1, "", now_ns());
    throw 1;
  } catch (int) {
    Trace::wanted = false;
  }

  symm_trace_call_t seen[4];  // behind the head
  std::ifstream(std::filesystem::directory_iterator(folder.path())->path())
      .read(reinterpret_cast<char*>(seen), sizeof seen);
  const auto& [head, a, b, c] = seen;
  EXPECT_EQ(std::tuple(a.mark, a.end_ns, a.bytes, a.algorithm, b.failed, c.peer),
      std::tuple(1U, 0U, 5U, 3, 1, 1));
  EXPECT_EQ(std::tuple(std::string(a.tag), std::string(b.tag), std::string(c.tag)),
      std::tuple("", "gradients", ""))
      << "the sleep has none of its own";
  EXPECT_TRUE(b.begin_ns <= c.begin_ns && c.end_ns <= b.end_ns);
}
}  // namespace
}  // namespace symm
