// The rendezvous of the ranks of one creation in a directory that other creations and other
// jobs use, too, and in which crashed jobs have left files.
//
// Rank 0 makes a shared directory (directory.hpp) for this creation: an attempt. The others look
// for the newest open attempt whose rank 0 is alive, and lock their rank in it (rank_lock.hpp).
// When each rank's lock is held by a living process, rank 0 seals the attempt. Before that, a rank
// that finds a newer attempt, or whose rank 0 dies, leaves and looks again. After that, nobody can
// enter, and a death is an error. So the files of a crashed or stopped former job are passed over,
// a rank may come before rank 0, and creations need no numbers that could get out of step.
//
// An attempt that fails before it is sealed leaves a tombstone (tombstone.hpp), so that
// the ranks that come too late for it fail as those did that had come.
// tests/models/births.pml has every order of the steps.
//   1. Each rank of an attempt that fails in it sets the tombstone; the first one counts.
//      Timeouts have none: each rank has a deadline of its own.
//   2. A rank that is in no attempt, finds no open one, and finds a tombstone that is news to
//      its rank, waits for the time that a dead rank has to be started again. If no attempt
//      opens meanwhile, it fails as the tombstone says, and its rank knows.
//   3. A process that began after the attempt had failed may belong to another launch.
//      It goes on waiting for an attempt until its deadline. Only then it fails as the
//      tombstone says, if its job has a name; without one it only quotes the tombstone.
//   4. Rank 0 removes the tombstones of older attempts when it opens another.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/wait.hpp"
#include "core/bootstrap/rank_lock.hpp"
#include "core/bootstrap/tombstone.hpp"
#include "core/socket/directory.hpp"

namespace symm {
// The file that says why no rank should wait in this attempt any more.
inline constexpr char kFailedFile[] = "failed";

struct DirectoryRendezvousConfig {
  std::string base;  // private directory, made if missing
  // The group's name and its job: creations that differ in either do not see each other.
  std::string name;
  std::string job;
  std::string description;  // the bootstrap, for messages
  int rank = 0;
  int size = 1;
  bool remove_base = false;  // remove `base` when it is empty at the end
};

class DirectoryRendezvous {
 public:
  // Waits until all ranks have come. Throws Error: timeout naming the missing ranks;
  // mismatch if two processes lock one rank, or the sizes differ; peer_failed if a
  // rank came and died. If rank 0 throws, the ranks that had come throw its failure,
  // too, and those that come later.
  DirectoryRendezvous(DirectoryRendezvousConfig config, Deadline deadline);
  ~DirectoryRendezvous();
  DirectoryRendezvous(DirectoryRendezvous&&) = delete;

  int fd() const noexcept { return place_->fd(); }
  std::string path() const { return place_->path(); }
  const DirectoryRendezvousConfig& config() const noexcept { return config_; }

  // Looks whether one of the other ranks is dead, a different one in each call. Throws
  // Error(peer_failed).
  void look_at_next_rank();
  // Tells the others why this rank leaves. The first failure that is told counts.
  void tell(Failure failure) const noexcept;

 private:
  struct Attempt {
    std::string name;
    RankLockInfo leader;
  };
  // A reason to fail that must last for a time: it may pass, if an earlier job is just being killed
  // or replaced.
  struct GracePeriod {
    std::optional<Failure> failure;
    Deadline grace = Deadline::never();
    void raise(Failure why);
    bool lasting() const noexcept { return failure && grace.expired(); }
  };

  struct Grave {
    std::string path;
    Tombstone tombstone;
  };

  void lead(Deadline deadline);
  void open_attempt();
  void await_departure_of_rival(Deadline deadline) const;
  bool all_have_come(GracePeriod& grace_period);
  bool follow(GracePeriod& grace_period, GracePeriod& mourning);
  bool is_in_sealed(const GracePeriod& grace_period);
  bool leave_if_void(GracePeriod& grace_period, const std::optional<Attempt>& newest);
  void try_to_lock(GracePeriod& grace_period, const RankLockInfo& leader);

  std::vector<std::string> names_with(const std::string& prefix, int base) const;
  std::vector<Attempt> open_attempts() const;
  std::optional<Attempt> newest_attempt() const;
  void replace_older() const;
  void remove_older_tombstones(int base) const;
  void forget_failed_attempts() const noexcept;
  static void declare(
      int directory, const Failure& failure, const char* file = kFailedFile) noexcept;
  std::optional<Failure> declared() const;
  void throw_if_declared() const;
  std::optional<Grave> newest_grave() const;
  void mourn(GracePeriod& mourning);
  void bury(const Failure& failure) const noexcept;
  std::vector<bool> ranks_that_came() const;
  Failure taken(int rank, int64_t pid) const;
  Failure died(int rank, int64_t pid) const;
  Failure missing() const;
  void leave_attempt() noexcept;
  void remove_base() const noexcept;

  DirectoryRendezvousConfig config_;
  std::string
      prefix_;  // begins the names of attempts; short, whatever the group and job are called
  std::unique_ptr<SharedDirectory> place_;
  std::optional<RankLock> rank_lock_;
  int next_rank_ = 0;
  // The attempt that this rank leaves a tombstone of if it fails now; "": none. It may
  // have left the attempt: then came_ has the ranks that were in it.
  std::string attempt_;
  std::vector<bool> came_;
  uint64_t in_order_ns_;               // when nothing was wrong with the attempt, by boot_time_ns()
  uint64_t lifetime_ns_;               // of a tombstone
  std::optional<Grave> too_late_for_;  // the newest attempt that failed before this rank came
  // Exceptions in flight at the start. If there are more at the end, the creation failed.
  int exceptions_;
};
}  // namespace symm
