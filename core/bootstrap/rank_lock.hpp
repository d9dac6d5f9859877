// The claim of a process to be rank r: a file in a shared directory, locked by flock() while its
// owner lives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/base/fd.hpp"

namespace symm {
enum class RankLockState {
  absent,   // nobody came yet
  held,     // its owner is alive
  stopped,  // its owner is stopped (SIGSTOP, debugger): perhaps left over from an earlier job
  dead,     // its owner died, or gave up without leave() or withdraw()
  left,     // its owner left in good order
};

struct RankLockInfo {
  RankLockState state = RankLockState::absent;
  int64_t pid = 0;  // the owner's, in its own pid namespace
  int size = 0;     // the number of ranks that the owner was told
};

// Looks at a lock without disturbing it.
RankLockInfo look_at_rank_lock(int directory, int rank);
// Whether a process has ever locked the rank here, even if the lock was withdrawn.
bool was_locked(int directory, int rank);

class RankLock {
 public:
  // Locks `rank` of `size` ranks, and takes over the lock of a dead owner. Returns nothing if a
  // living owner holds the lock, or another process is just trying; look_at_rank_lock() tells.
  static std::optional<RankLock> take(int directory, int rank, int size);

  RankLock(RankLock&&) noexcept = default;
  RankLock& operator=(RankLock&&) noexcept = default;
  ~RankLock() = default;  // without withdraw() or leave(), others see the rank as dead

  void withdraw() noexcept;  // before the group is complete: the rank is free again
  void leave() noexcept;     // in good order

 private:
  RankLock(int directory, int rank, Fd file)
      : directory_(directory), rank_(rank), file_(std::move(file)) {}
  void go(const std::string& name) noexcept;

  int directory_;
  int rank_;
  Fd file_;
};
}  // namespace symm
