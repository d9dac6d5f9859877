// How the ranks of one creation find each other in a directory that other creations,
// other jobs and their remains use as well.
//
// Rank 0 makes a shared directory (directory.hpp) for this creation: an attempt. The
// others look for the newest attempt whose rank 0 is alive and which is open, and lock
// their rank in it (rank_lock.hpp). When every rank's lock is held by a living process,
// rank 0 seals the attempt. Until then a rank that finds a newer one, or whose rank 0
// dies, leaves and looks again; from then on nobody can enter, and a death is an error.
// So what a crashed or stopped former job left behind is passed over, a rank may come
// before rank 0, and successive creations need no numbers that could get out of step.
#pragma once

#include "core/base/wait.hpp"
#include "core/bootstrap/rank_lock.hpp"
#include "core/socket/directory.hpp"

namespace symm {
inline constexpr char kFailedFile[] = "failed";  // why nobody should wait in this attempt any more

struct DirectoryRendezvousConfig {
  std::string base;         // private directory, made if missing
  std::string name;         // of the group: creations with different names do not see each other
  std::string job;          // nor do those of different jobs
  std::string description;  // of the bootstrap, for messages
  int rank = 0;
  int size = 1;
  bool remove_base = false;  // when it is empty at the end
};

class DirectoryRendezvous {
 public:
  // Wait until all ranks have come. Throws Error: timeout naming the missing ranks;
  // mismatch if two processes lock one rank, or the sizes differ; peer_failed if a rank
  // came and died. What rank 0 throws, the ranks that had come throw too.
  DirectoryRendezvous(DirectoryRendezvousConfig config, Deadline deadline);
  ~DirectoryRendezvous();
  DirectoryRendezvous(DirectoryRendezvous&&) = delete;

  int fd() const noexcept { return place_->fd(); }
  std::string path() const { return place_->path(); }
  const DirectoryRendezvousConfig& config() const noexcept { return config_; }

  // Look whether one of the other ranks is dead, a
  // different one in each call; throws Error(peer_failed).
  void look_at_next_rank();
  // Why this rank goes; the first to say so counts.
  void tell(Failure failure) const noexcept;

 private:
  struct Attempt {
    std::string name;
    RankLockInfo leader;
  };
  // A reason to fail that passes if it is due to an earlier job just being killed, or
  // about to be replaced: it must last.
  struct GracePeriod {
    std::optional<Failure> failure;
    Deadline grace = Deadline::never();
    void raise(Failure why);
    bool lasting() const noexcept { return failure && grace.expired(); }
  };

  void lead(Deadline deadline);
  void await_departure_of_rival(Deadline deadline) const;
  bool all_have_come(GracePeriod& grace_period) const;
  bool follow(GracePeriod& grace_period);
  void contest(GracePeriod& grace_period, const RankLockInfo& leader);

  std::vector<Attempt> open_attempts() const;
  std::optional<Attempt> newest_attempt() const;
  void replace_older() const;
  static void declare(
      int directory, const Failure& failure, const char* file = kFailedFile) noexcept;
  void throw_if_declared() const;
  Failure taken(int rank, int64_t pid) const;
  Failure died(int rank, int64_t pid) const;
  Failure missing() const;
  void go_out() noexcept;
  void remove_base() const noexcept;

  DirectoryRendezvousConfig config_;
  std::string prefix_;  // of attempts: any names make a short file name
  std::unique_ptr<SharedDirectory> place_;
  std::optional<RankLock> rank_lock_;
  int next_rank_ = 0;
  int exceptions_;  // in flight at the start; more at the end mean that the creation failed
};
}  // namespace symm
