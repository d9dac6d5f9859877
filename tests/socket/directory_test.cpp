#include "core/socket/directory.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/process.hpp"
#include "tests/support/core.hpp"

namespace {
using namespace symm;
using namespace support;

TEST(PrivateDirectory, IsMadeWithModeSevenHundred) {
  const TemporaryDirectory top;
  EXPECT_EQ(failure_of([&] { open_private_directory(top / "new", false); }).status, Status::system);
  const Fd directory = open_private_directory(top / "new", true);
  struct stat status{};
  ASSERT_EQ(fstat(directory.get(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
  EXPECT_NE(fcntl(directory.get(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_TRUE(open_private_directory(top / "new", true));
}

TEST(PrivateDirectory, OpenToOthersIsRefusedAndLeftAlone) {
  const TemporaryDirectory top;
  for (const mode_t mode : {0755u, 0770u, 0701u, 0720u}) {
    ASSERT_EQ(chmod(top.path().c_str(), mode), 0);
    expect_failure(Status::unavailable, {top.path(), format("%04o", mode)},
        [&] { open_private_directory(top.path(), true); });
    struct stat status{};
    ASSERT_EQ(stat(top.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, mode);
  }
  ASSERT_EQ(chmod(top.path().c_str(), 0700), 0);
}

TEST(PrivateDirectory, LinksAndFilesAreRefused) {
  const TemporaryDirectory top;
  ASSERT_EQ(mkdir((top / "real").c_str(), 0700), 0);
  ASSERT_EQ(symlink((top / "real").c_str(), (top / "link").c_str()), 0);
  std::ofstream(top / "file") << "x";
  EXPECT_EQ(
      failure_of([&] { open_private_directory(top / "link", true); }).status, Status::unavailable);
  EXPECT_EQ(
      failure_of([&] { open_private_directory(top / "file", true); }).status, Status::unavailable);
}

TEST(PrivateDirectory, OfAnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give a directory away";
  const TemporaryDirectory top;
  ASSERT_EQ(mkdir((top / "theirs").c_str(), 0700), 0);
  ASSERT_EQ(chown((top / "theirs").c_str(), 12345, 12345), 0);
  expect_failure(
      Status::unavailable, {"12345"}, [&] { open_private_directory(top / "theirs", true); });
}

TEST(DefaultParent, IsInTheRuntimeDirectoryIfThatIsOurs) {
  const TemporaryDirectory top;
  const std::string fallback = "/tmp/symm-" + std::to_string(geteuid());
  setenv("XDG_RUNTIME_DIR", top.path().c_str(), 1);
  EXPECT_EQ(default_parent(), top / "symm");
  setenv("XDG_RUNTIME_DIR", (top / "missing").c_str(), 1);
  EXPECT_EQ(default_parent(), fallback);
  ASSERT_EQ(chmod(top.path().c_str(), 0777), 0);
  setenv("XDG_RUNTIME_DIR", top.path().c_str(), 1);
  EXPECT_EQ(default_parent(), fallback);
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(default_parent(), fallback);
}

TEST(SharedDirectory, GoesWithTheLastProcessInIt) {
  const TemporaryDirectory top;
  const std::string base = top / "base";

  auto first = SharedDirectory::make(base, "g");
  const std::string name = first->name();
  std::ofstream(first->path() + "/content") << "x";

  auto second = SharedDirectory::enter(base, name);
  ASSERT_TRUE(second);

  first.reset();
  EXPECT_EQ(entries(base), std::vector{name});
  sweep(base);
  EXPECT_EQ(entries(base), std::vector{name});

  second.reset();
  EXPECT_TRUE(entries(base).empty());
  EXPECT_FALSE(SharedDirectory::enter(base, name));
  EXPECT_FALSE(SharedDirectory::enter(top / "none", name));
}

TEST(SharedDirectory, NamesSortByTimeAndDiffer) {
  const TemporaryDirectory top;
  const auto first = SharedDirectory::make(top.path(), "g");
  const auto second = SharedDirectory::make(top.path(), "g");
  EXPECT_LT(first->name(), second->name());
}

TEST(Sweep, TakesWhatAKilledProcessLeftAndNothingElse) {
  const TemporaryDirectory top;
  mkdir((top / "j-job").c_str(), 0700);
  Process victim([&] {
    const auto one = SharedDirectory::make(top.path(), "g");
    const auto two = SharedDirectory::make(top / "j-job", "g-0123456789abcdef");
    std::ofstream(one->path() + "/content") << "x";
    tell();
    pause();
    return std::string();
  });

  ASSERT_TRUE(victim.told());
  const std::string like_ours = "g-0123456789abcdef-0123456789abcde";
  std::ofstream(top / (like_ours + "0")) << "not a directory";
  mkdir((top / (like_ours + "1")).c_str(), 0700);  // its maker died before it made the lock

  // Directories of the user: without a lock, with a lock of another kind, or by another name.
  const std::vector<std::string> of_user{
      like_ours + "2", like_ours + "3", like_ours + "4-more", "g-results", "unrelated"};

  for (const std::string& name : of_user) {
    mkdir((top / name).c_str(), 0700);
    std::ofstream(top / name + "/content") << "x";
    if (name == like_ours + "3") std::ofstream(top / name + "/lock") << "mine";
    if (name != like_ours + "2" && name != like_ours + "3") std::ofstream(top / name + "/lock");
  }

  mkdir((top / "j-empty").c_str(), 0700);
  const auto mine = SharedDirectory::make(top.path(), "g");
  const size_t before = entries(top.path()).size();
  sweep(top.path());
  EXPECT_EQ(entries(top.path()).size(), before - 1);
  victim.kill(SIGKILL);
  victim.result();
  sweep(top.path());
  EXPECT_EQ(entries(top.path()).size(), before - 2) << "job directories may be the user's";
  sweep(top.path(), Sweep::with_jobs);
  std::vector<std::string> left = of_user;
  left.insert(left.end(), {like_ours + "0", mine->name()});
  std::sort(left.begin(), left.end());
  EXPECT_EQ(entries(top.path()), left);

  for (const std::string& name : of_user) {
    EXPECT_TRUE(std::filesystem::exists(top / name + "/content"));
  }
}

TEST(Sweep, TakesNotesThatHaveExpiredAndNothingElse) {
  const TemporaryDirectory top;
  const auto note = [&](const std::string& name, const std::string& text) {
    EXPECT_EQ(symlink(text.c_str(), (top / name).c_str()), 0);
    return name;
  };

  const std::string like_ours = "f-0123456789abcdef-0123456789abcdef-0123456789abcde";
  const uint64_t now_ns = process::boot_time_ns();
  note(like_ours + "0", expiry(now_ns - 1) + "over");
  std::string other_boot = expiry(now_ns + 1'000'000'000'000);
  other_boot[0] = other_boot[0] == '0' ? '1' : '0';
  note(like_ours + "1", other_boot + "over");
  std::vector<std::string> left{note(like_ours + "2", expiry(now_ns + 60'000'000'000) + "kept"),
      note(like_ours + "3", "of the user"), note("f-results", expiry(now_ns - 1) + "of the user")};

  sweep(top.path());
  EXPECT_EQ(entries(top.path()), left);
  const Fd directory = open_private_directory(top.path(), false);
  EXPECT_EQ(read_note(directory.get(), left[0].c_str()), expiry(now_ns + 60'000'000'000) + "kept");
  EXPECT_FALSE(has_expired(read_note(directory.get(), left[1].c_str())));
  EXPECT_EQ(read_note(directory.get(), "missing"), "");
}

TEST(Sweep, NeverTakesADirectoryThatIsBeingMade) {
  const TemporaryDirectory top;
  as_threads(4, [&](int thread) {
    for (int round = 0; round < 300; ++round) {
      if (thread < 2) {
        sweep(top.path());
        continue;
      }
      const auto made = SharedDirectory::make(top.path(), "g");
      const Fd file(openat(made->fd(), "content", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      ASSERT_TRUE(file);
      ASSERT_TRUE(std::filesystem::exists(made->path() + "/content"));
    }
  });

  EXPECT_TRUE(entries(top.path()).empty());
}
}  // namespace
