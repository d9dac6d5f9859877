// Takes and looks at the lock file of a rank. The kernel drops the lock when its owner dies.
#include "core/bootstrap/rank_lock.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/fd.hpp"
#include "core/base/process.hpp"
#include "core/socket/directory.hpp"

namespace symm {
namespace {
std::string name_of_rank_lock(int rank) { return "rank." + std::to_string(rank); }

std::string name_when_withdrawn(int rank) { return "gone." + std::to_string(rank); }

std::string name_when_left(int rank) { return "left." + std::to_string(rank); }

RankLockInfo read_rank_lock(int file) {
  RankLockInfo info;
  char text[128];
  const ssize_t size = read_whole(file, text, sizeof text - 1);
  if (size <= 0) return info;
  text[size] = '\0';

  int64_t pid = 0;
  uint64_t locked_start = 0;
  if (std::sscanf(text, "pid %ld start %lu size %d", &pid, &locked_start, &info.size) != 3) {
    return info;
  }
  info.pid = pid;

  // In another pid namespace the pid means another process, which has another start time.
  const auto owner = process::stat_of(pid);
  const bool stopped = owner && owner->start == locked_start && owner->stopped();
  info.state = stopped ? RankLockState::stopped : RankLockState::held;
  return info;
}

bool is_named(int directory, const std::string& name, int file) {
  struct stat opened{};
  struct stat named{};
  return fstat(file, &opened) == 0 &&
         fstatat(directory, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_ino == named.st_ino;
}
}  // namespace

RankLockInfo look_at_rank_lock(int directory, int rank) {
  const std::string name = name_of_rank_lock(rank);
  for (;;) {
    const Fd file = make_fd(::openat, directory, name.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (!file) {
      if (errno != ENOENT) throw system_error(errno, "open", name);
      RankLockInfo info;
      info.state = exists(directory, name_when_left(rank).c_str()) ? RankLockState::left
                                                                   : RankLockState::absent;
      return info;
    }

    // The owner's exclusive lock excludes a shared one. A shared lock does not exclude those of
    // other processes that look.
    RankLockInfo info = read_rank_lock(file.get());
    if (flock(file.get(), LOCK_SH | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) throw system_error(errno, "flock", name);
      return info;
    }

    // An owner that leaves renames the file before it unlocks it: then this looks again.
    if (!is_named(directory, name, file.get())) continue;
    info.state = RankLockState::dead;
    return info;
  }
}

bool was_locked(int directory, int rank) {
  return look_at_rank_lock(directory, rank).state != RankLockState::absent ||
         exists(directory, name_when_withdrawn(rank).c_str());
}

std::optional<RankLock> RankLock::take(int directory, int rank, int size) {
  // One newcomer at a time: of two that both found a dead lock, the second could replace the file
  // of the first. If another has its turn, the caller tries again.
  const Fd turn =
      make_fd(::openat, directory, "claims", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (!turn) throw system_error(errno, "open", "claims");
  if (flock(turn.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::nullopt;
    throw system_error(errno, "flock", "claims");
  }

  const std::string name = name_of_rank_lock(rank);
  const RankLockState state = look_at_rank_lock(directory, rank).state;
  if (state == RankLockState::held || state == RankLockState::stopped ||
      state == RankLockState::left) {
    return std::nullopt;
  }

  // The file has a name of its own until it is complete and locked.
  const std::string temporary = format("new.%016lx", process::random64());
  Fd file = make_fd(::openat, directory, temporary.c_str(),
      O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (!file) throw system_error(errno, "open", temporary);
  const std::string text =
      format("pid %d start %lu size %d\n", getpid(), process::start_time_of(getpid()), size);
  const bool held = write_whole(file.get(), text.data(), text.size()) &&
                    flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  if (!held || renameat(directory, temporary.c_str(), directory, name.c_str()) != 0) {
    const int error = errno;
    unlinkat(directory, temporary.c_str(), 0);
    throw system_error(error, held ? "rename" : "write", name);
  }
  return RankLock(directory, rank, std::move(file));
}

void RankLock::withdraw() noexcept { go(name_when_withdrawn(rank_)); }

void RankLock::leave() noexcept { go(name_when_left(rank_)); }

void RankLock::go(const std::string& name) noexcept {
  if (!file_) return;
  renameat(directory_, name_of_rank_lock(rank_).c_str(), directory_, name.c_str());
  flock(file_.get(), LOCK_UN);
  file_.reset();
}
}  // namespace symm
