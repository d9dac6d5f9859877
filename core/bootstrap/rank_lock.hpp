// "I am rank r": a file in a shared directory, held by flock while its owner lives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/fd.hpp"

namespace symm {
enum class RankLockState {
  absent,   // nobody came yet
  held,     // its owner is alive
  stopped,  // alive but stopped (SIGSTOP, debugger): perhaps left over from an earlier job
  dead,     // its owner died, or gave up without a word
  left,     // its owner left in good order
};

struct RankLockInfo {
  RankLockState state = RankLockState::absent;
  int64_t pid = 0;  // as its owner sees itself
  int size = 0;     // how many ranks its owner was told of
};

// Look without disturbing.
RankLockInfo look_at_rank_lock(int directory, int rank);
// Has anybody ever locked the rank here, even if the lock was withdrawn?
bool was_locked(int directory, int rank);

class RankLock {
 public:
  // RankLock `rank` of `size`, taking over from a dead owner. Nothing if a living one
  // holds it; that may be asked by look_at_rank_lock().
  static std::optional<RankLock> take(int directory, int rank, int size);

  RankLock(RankLock&&) noexcept = default;
  RankLock& operator=(RankLock&&) noexcept = default;
  ~RankLock() = default;  // without a word: others see it as dead

  void withdraw() noexcept;  // before the group was complete: the rank is free again
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
